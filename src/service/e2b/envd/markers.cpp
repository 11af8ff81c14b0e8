#include "service/e2b/envd/markers.h"

#include "base/strings.h"

namespace atl::service::e2b::envd {
namespace {

constexpr std::size_t kMaxRemembered = 10'000;

Task<> write_marker(control::Files& files, std::string name, std::string content) {
  CO_TRY(const auto writer,
         co_await files.write_file(
             {.path = concat("/run/e2b/.", name), .user = "root", .mode = 0444}));
  CO_TRY_DO(co_await writer->write(content));
  CO_TRY_DO(co_await writer->finish());
  co_return ok();
}

}  // namespace

bool Markers::wanted(const SandboxTarget& target) {
  if (written_.size() >= kMaxRemembered) {
    written_.clear();
  }
  return written_.insert(target.sandbox.sandbox_id).second;
}

Task<> Markers::write(control::SandboxRef sandbox, std::string template_name) {
  CO_TRY(const auto files, co_await places_.open({sandbox.team_id, sandbox.sandbox_id}));
  CO_TRY_DO(co_await write_marker(*files, "E2B_SANDBOX", "true"));
  CO_TRY_DO(co_await write_marker(*files, "E2B_SANDBOX_ID", std::move(sandbox.sandbox_id)));
  co_return co_await write_marker(*files, "E2B_TEMPLATE_ID", std::move(template_name));
}

}  // namespace atl::service::e2b::envd
