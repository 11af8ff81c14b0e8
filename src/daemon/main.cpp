// atoll: one executable, and the table of contents of the program.
//
//   atoll serve     the supervisor; it starts the two below and keeps them running
//   atoll node      internal: the root process (node_process.cpp)
//   atoll api       internal: the process that faces the network (api_process.cpp)
//   atoll ...       everything else is the command line client (cli/)
#include <cstdio>
#include <span>
#include <string_view>

#include "base/log.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "daemon/api_process.h"
#include "daemon/node_process.h"
#include "daemon/options.h"
#include "daemon/serve.h"
#include "daemon/version.h"
#include "runtime/room.h"

namespace atl::daemon {
namespace {

int report(const char* process, const Result<>& outcome) {
  if (outcome) {
    return 0;
  }
  std::fprintf(stderr, "atoll %s: %s\n", process, outcome.error().message.c_str());
  return code_exit_status(outcome.error().code);
}

int serve(std::span<char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--help" || word == "-h") {
      std::fputs(kServeHelp, stdout);
      return 0;
    }
  }
  const auto options = parse_serve(words);
  if (!options) {
    std::fprintf(stderr, "atoll serve: %s\nSee: atoll serve --help\n",
                 options.error().message.c_str());
    return code_exit_status(options.error().code);
  }
  log_configure(LogLevel::kInfo, options->log, "serve");
  return report("serve", run_serve(*options));
}

int node(std::span<char* const> words) {
  const auto options = parse_node(words);
  if (!options) {
    return report("node", fail(options.error()));
  }
  log_configure(LogLevel::kInfo, options->common.log, "node");
  return report("node", run_node(*options));
}

int api(std::span<char* const> words) {
  const auto options = parse_api(words);
  if (!options) {
    return report("api", fail(options.error()));
  }
  log_configure(LogLevel::kInfo, options->common.log, "api");
  return report("api", run_api(*options));
}

std::vector<cli::DoctorCheck> host_checks() {
  std::vector<cli::DoctorCheck> checks;
  for (runtime::HostCheck& check : runtime::check_host()) {
    checks.push_back({std::move(check.name), static_cast<cli::DoctorCheck::Verdict>(check.verdict),
                      std::move(check.finding), std::move(check.advice)});
  }
  return checks;
}

int client(int argc, char** argv) {
  return cli::main(argc, argv,
                   {.host_checks = host_checks,
                    .version = kVersion,
                    .other_commands = {{"serve", "Run the server", kServeHelp}}});
}

}  // namespace
}  // namespace atl::daemon

int main(int argc, char** argv) {
  using namespace atl::daemon;
  const std::string_view command = argc > 1 ? argv[1] : "";
  const std::span<char* const> words{argv + (argc > 1 ? 2 : 1), argv + argc};
  if (command == "serve") {
    return serve(words);
  }
  if (command == "node") {
    return node(words);
  }
  if (command == "api") {
    return api(words);
  }
  return client(argc, argv);
}
