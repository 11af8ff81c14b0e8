// atoll: one executable, and the table of contents of the program.
//
//   atoll serve     the supervisor; it starts the two below and keeps them running
//   atoll dev       the same, with all that a client needs printed
//   atoll node      internal: the root process (node_process.cpp)
//   atoll api       internal: the process that faces the network (api_process.cpp)
//   atoll ...       everything else is the command line client (cli/)
#include <cstdio>
#include <span>
#include <string_view>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "daemon/api_process.h"
#include "daemon/criu_adapter.h"
#include "daemon/layout.h"
#include "daemon/node_process.h"
#include "daemon/options.h"
#include "daemon/serve.h"
#include "daemon/version.h"
#include "io/stream.h"
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
    if (word == "--list-fault-points") {
      for (const fault::Point& point : fault::points()) {
        std::puts(point.name);
      }
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

std::vector<cli::DoctorCheck> host_checks() {
  std::vector<cli::DoctorCheck> checks;
  std::vector<runtime::HostCheck> found = runtime::check_host();
  found.push_back(runtime::check_memory_dumps(
      {.criu_directory = kDefaultCriuDirectory, .criu_adapter = find_criu_adapter()}));
  checks.reserve(found.size());
  for (runtime::HostCheck& check : found) {
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

// For a server that somebody else has started there.
int print_for_clients(const ServeOptions& options, bool json) {
  std::vector<std::string> words{
      "atoll",
      "dev",
      "--print",
      "--data-dir",
      options.data_dir,
      "--api-url",
      concat(options.tls_key.empty() ? "http://" : "https://", options.host, ":", options.port)};
  if (json) {
    words.insert(words.end(), {"-o", "json"});
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size());
  for (auto& word : words) {
    arguments.push_back(word.data());
  }
  return client(static_cast<int>(arguments.size()), arguments.data());
}

// Printing for clients shows the server the key: whoever else sits on the port must not get it, nor
// another machine whose address was given.
bool runs_already(const ServeOptions& options) {
  const auto bound = io::Listener::bind_tcp(options.host, options.port);
  if (bound || bound.error().reason != "EADDRINUSE") {
    return false;
  }
  const auto address = running_address(options.data_dir);
  return address && *address == concat(options.host, ":", options.port);
}

// `atoll dev`: a server with its clients' part printed, or only that when ours runs already.
int dev(int argc, char** argv, std::span<char* const> words) {
  std::vector<char*> serve_words;
  bool only_print = false;
  bool json = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool output = word == "-o" || word == "--output";
    only_print = only_print || word == "--print" || word == "--help" || word == "-h";
    if (output && i + 1 < words.size()) {
      json = std::string_view{words[++i]} == "json";
    } else if (word == "--output=json" || word == "-ojson") {
      json = true;
    } else {
      serve_words.push_back(words[i]);
    }
  }
  if (only_print) {
    return client(argc, argv);
  }
  auto options = parse_serve(serve_words);
  if (!options) {
    std::fprintf(stderr, "atoll dev: %s\nSee: atoll dev --help\n", options.error().message.c_str());
    return code_exit_status(options.error().code);
  }
  if (options->port != 0 && runs_already(*options)) {
    return print_for_clients(*options, json);
  }
  options->print_for_clients = true;
  options->print_json = json;
  log_configure(LogLevel::kInfo, options->log, "serve");
  return report("dev", run_serve(*options));
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

}  // namespace
}  // namespace atl::daemon

int main(int argc, char** argv) {
  using namespace atl::daemon;
  const std::string_view command = argc > 1 ? argv[1] : "";
  const std::span<char* const> words{argv + (argc > 1 ? 2 : 1), argv + argc};
  if (command == "serve") {
    return serve(words);
  }
  if (command == "dev") {
    return dev(argc, argv, words);
  }
  if (command == "node") {
    return node(words);
  }
  if (command == "api") {
    return api(words);
  }
  return client(argc, argv);
}
