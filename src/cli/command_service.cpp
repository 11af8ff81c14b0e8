// `atoll service`, `atoll preview`, `atoll expose`: what the outside may reach of a sandbox.
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/random.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/sandbox.h"
#include "cli/table.h"

namespace atl::cli {
namespace {

Result<std::string> read_text(const std::string& name) {
  constexpr std::size_t kMaxBytes = std::size_t{2} << 20;
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    if (!file) {
      return fail(Code::kNotFound, concat("cannot read ", name));
    }
  }
  std::istream& in = name == "-" ? std::cin : file;
  std::string text(std::istreambuf_iterator<char>{in}, {});
  if (text.size() > kMaxBytes) {
    return fail(Code::kInvalidArgument, concat(name, " is too large for a list of services"));
  }
  return text;
}

std::string port_text(const Json& service) {
  const Json* port = service.find("port");
  return port == nullptr || port->as_integer() == nullptr ? std::string{}
                                                          : std::to_string(*port->as_integer());
}

std::string runtime_text(const Json& service) {
  const Json* runtime = service.find("runtime");
  return runtime == nullptr ? std::string{"manual"} : text_member(*runtime, "type");
}

const Json::Array& services_of(const Json& answer) {
  static const Json::Array kNone;
  const Json* list = answer.find("services");
  return list == nullptr || list->as_array() == nullptr ? kNone : *list->as_array();
}

void print_services(const CommandContext& context, const Json& answer) {
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
    return;
  }
  Table table{{"SERVICE", "PORT", "RUNTIME", "ADDRESS"}};
  std::string ids;
  for (const Json& service : services_of(answer)) {
    const std::string url = text_member(service, "public_url");
    ids += printable(text_member(service, "id")) + "\n";
    table.add({printable(text_member(service, "id")), port_text(service),
               printable(runtime_text(service)), url.empty() ? "- (not public)" : printable(url)});
  }
  context.console.print(context.options.quiet ? ids : table.render());
}

Task<Json> get_services(Api& api, std::string sandbox) {
  CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(sandbox)));
  co_return co_await api.call("GET", sandbox_path(id, "/services"));
}

Task<int> set_services(CommandContext& context, const ServiceOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const std::string text, read_text(options.words[1]));
  auto document = Json::parse(text);
  if (!document) {
    co_return fail(std::move(document).error().note(options.words[1]));
  }
  Json body = document->as_array() != nullptr ? Json::object({{"services", *document}})
                                              : *std::move(document);
  CO_TRY(const std::string id, co_await resolve_sandbox(api, options.words[0]));
  CO_TRY(const Json answer,
         co_await api.call("PUT", sandbox_path(id, "/services"), std::move(body)));
  print_services(context, answer);
  co_return 0;
}

Task<int> print_url(CommandContext& context, const ServiceOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await get_services(api, options.words[0]));
  for (const Json& service : services_of(answer)) {
    if (text_member(service, "id") != options.words[1] && port_text(service) != options.words[1]) {
      continue;
    }
    const std::string url = text_member(service, "public_url");
    if (url.empty()) {
      co_return fail(Code::kFailedPrecondition,
                     concat("service ", printable(options.words[1]), " is not public"));
    }
    context.console.print(printable(url) + "\n");
    co_return 0;
  }
  co_return fail(Code::kNotFound, concat("there is no service ", printable(options.words[1])));
}

}  // namespace

Task<int> command_service(CommandContext& context, const ServiceOptions& options) {
  using Action = ServiceOptions::Action;
  if (options.action == Action::kSet) {
    co_return co_await set_services(context, options);
  }
  if (options.action == Action::kUrl) {
    co_return co_await print_url(context, options);
  }
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json answer, co_await get_services(api, options.words[0]));
  print_services(context, answer);
  co_return 0;
}

Task<int> command_preview(CommandContext& context, const PreviewOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const std::string id, co_await resolve_sandbox(api, options.words[0]));
  if (options.action == PreviewOptions::Action::kRemove) {
    CO_TRY_DO(co_await api.call(
        "DELETE", sandbox_path(id, "/previews/" + http::percent_encode(options.words[1]))));
    co_return 0;
  }
  Json body = Json::object({{"port", static_cast<std::int64_t>(*parse_u64(options.words[1]))}});
  if (options.https) {
    body.set("protocol", "https");
  }
  if (!options.path.empty()) {
    body.set("path", options.path);
  }
  if (options.ttl_seconds) {
    body.set("ttl_seconds", *options.ttl_seconds);
  }
  CO_TRY(const Json answer,
         co_await api.call("POST", sandbox_path(id, "/previews"), std::move(body)));
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
  } else if (context.options.quiet) {
    context.console.print(printable(text_member(answer, "id")) + "\n");
  } else {
    context.console.print(printable(text_member(answer, "url")) + "\n");
  }
  co_return 0;
}

// Adds to what is there; a service of the same port or name is replaced.
Task<int> command_expose(CommandContext& context, const ExposeOptions& options) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const std::string id, co_await resolve_sandbox(api, options.sandbox));
  CO_TRY(const Json before, co_await api.call("GET", sandbox_path(id, "/services")));
  const std::string name = options.name.empty() ? concat("port-", options.port) : options.name;
  const std::string port = std::to_string(options.port);
  Json services = Json::array();
  for (const Json& service : services_of(before)) {
    if (text_member(service, "id") != name && port_text(service) != port) {
      services.push(service);
    }
  }
  Json route = Json::object({{"id", name}, {"resume", !options.no_resume}});
  if (!options.token.empty()) {
    route.set("auth", Json::object({{"mode", "bearer"},
                                    {"bearer_token_sha256", hex(sha256(options.token))}}));
  }
  Json routes = Json::array();
  routes.push(std::move(route));
  services.push(
      Json::object({{"id", name},
                    {"port", options.port},
                    {"ingress", Json::object({{"public", true}, {"routes", std::move(routes)}})}}));
  CO_TRY(const Json answer, co_await api.call("PUT", sandbox_path(id, "/services"),
                                              Json::object({{"services", std::move(services)}})));
  if (context.options.json) {
    context.console.print(answer.dump_pretty() + "\n");
    co_return 0;
  }
  for (const Json& service : services_of(answer)) {
    if (text_member(service, "id") == name) {
      context.console.print(printable(text_member(service, "public_url")) + "\n");
    }
  }
  co_return 0;
}

}  // namespace atl::cli
