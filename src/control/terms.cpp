#include "control/terms.h"

#include "base/json_fields.h"
#include "base/strings.h"

namespace atl::control {
namespace {

constexpr std::string_view kPauseDisk = "pause_disk";

std::string_view name_of(TtlEnd end) {
  switch (end) {
    case TtlEnd::kPause:
      return "pause";
    case TtlEnd::kPauseDisk:
      return kPauseDisk;
    case TtlEnd::kDelete:
      return "delete";
  }
  return "delete";
}

}  // namespace

Json terms_json(const Terms& terms) {
  Json ports = Json::array();
  for (const std::uint16_t port : terms.https_ports) {
    ports.push(port);
  }
  Json mounts = Json::array();
  for (const auto& mount : terms.mounts) {
    mounts.push(Json::object({{"name", mount.name}, {"path", mount.path}}));
  }
  return Json::object({{"timeout_seconds", terms.timeout_seconds},
                       {"ttl_end", name_of(terms.ttl_end)},
                       {"auto_resume", terms.auto_resume},
                       {"secure", terms.secure},
                       {"public_traffic", terms.public_traffic},
                       {"request_host", terms.request_host},
                       {"https_ports", std::move(ports)},
                       {"asked_template", terms.asked_template},
                       {"internet", terms.internet ? Json{*terms.internet} : Json{nullptr}},
                       {"network", terms.network},
                       {"mounts", std::move(mounts)}});
}

Result<Terms> parse_terms(const Json& json) {
  TRY(const auto fields, Fields::of(json, "",
                                    {"timeout_seconds", "ttl_end", "auto_resume", "secure",
                                     "public_traffic", "request_host", "https_ports",
                                     "asked_template", "internet", "network", "mounts"}));
  Terms terms;
  TRY(const auto timeout, fields.integer("timeout_seconds", 0, INT64_MAX));
  TRY(const auto ttl_end, fields.string("ttl_end"));
  TRY(const auto auto_resume, fields.boolean("auto_resume"));
  TRY(const auto secure, fields.boolean("secure"));
  TRY(const auto public_traffic, fields.boolean("public_traffic"));
  TRY(const auto request_host, fields.string("request_host"));
  TRY(const auto asked_template, fields.string("asked_template"));
  TRY(terms.internet, fields.boolean("internet"));
  TRY(const auto network, fields.string("network"));
  TRY(const auto mounts, fields.objects("mounts", {"name", "path"}));
  terms.timeout_seconds = timeout.value_or(0);
  terms.ttl_end = ttl_end == name_of(TtlEnd::kPause) ? TtlEnd::kPause
                  : ttl_end == kPauseDisk            ? TtlEnd::kPauseDisk
                                                     : TtlEnd::kDelete;
  terms.auto_resume = auto_resume.value_or(false);
  terms.secure = secure.value_or(true);
  terms.public_traffic = public_traffic.value_or(false);
  terms.request_host = request_host.value_or("");
  terms.asked_template = asked_template.value_or("");
  terms.network = network.value_or("");
  for (const Fields& mount : mounts) {
    TRY(auto name, mount.required_string("name"));
    TRY(auto path, mount.required_string("path"));
    terms.mounts.push_back({std::move(name), std::move(path)});
  }
  if (const Json* ports = json.find("https_ports"); ports != nullptr && ports->as_array()) {
    for (const Json& port : *ports->as_array()) {
      if (port.as_integer() != nullptr) {
        terms.https_ports.push_back(static_cast<std::uint16_t>(*port.as_integer()));
      }
    }
  }
  return terms;
}

}  // namespace atl::control
