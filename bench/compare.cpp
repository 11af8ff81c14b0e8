// Request sent to output received: Atoll through its HTTP API against programs that start a
// sandbox and run /bin/true, on the same root filesystem, in one run.
//
//   atoll-bench URL KEY_FILE ROUNDS [NAME COMMAND... ";"]...
//
// Contestants take turns round by round, so noise of a shared machine hits all of them alike;
// what counts are the ratios. For Atoll the clock runs from sending "create" to having read the
// answer of the command; deleting is timed apart. For a program it runs from spawn to exit.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/json.h"
#include "base/strings.h"
#include "http/client.h"

extern char** environ;

namespace atl {
namespace {

using Clock = std::chrono::steady_clock;

struct Series {
  std::string name;
  std::vector<std::string> command;  // empty: Atoll
  std::vector<double> milliseconds;
};

double elapsed_ms(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const auto index = static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1));
  return values[index];
}

Result<> run_program(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const auto& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) {
    return fail(errno_error(command[0], error));
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(Code::kInternal, concat(command[0], " did not exit with 0"));
  }
  return {};
}

class AtollApi {
 public:
  AtollApi(io::Reactor& reactor, http::Url url, std::string key)
      : client_(reactor, std::move(url)), authorization_("Bearer " + std::move(key)) {}

  Task<Json> call(std::string method, std::string path, Json body) {
    http::Headers headers{{"authorization", authorization_}, {"content-type", "application/json"}};
    CO_TRY(auto response, co_await client_.send(std::move(method), std::move(path), headers,
                                                body.is_null() ? std::string{} : body.dump()));
    CO_TRY(const auto text, co_await http::read_all(response->body(), 1 << 20));
    if (response->status() / 100 != 2) {
      co_return fail(Code::kInternal, concat("HTTP ", response->status(), ": ", text));
    }
    CO_TRY(auto json, Json::parse(text));
    const Json* data = json.find("data");
    co_return data != nullptr ? *data : Json{};
  }

  Task<std::string> create_and_run_true() {
    CO_TRY(const auto claim, co_await call("POST", "/api/v1/sandboxes",
                                           Json::object({{"template", "default"}})));
    const auto* id = claim.find("sandbox_id");
    if (id == nullptr || id->as_string() == nullptr) {
      co_return fail(Code::kInternal, "the claim has no sandbox_id");
    }
    auto command = Json::array();
    command.push("/bin/true");
    const auto body = Json::object({{"type", "cmd"},
                                    {"cmd", Json::object({{"command", command}})},
                                    {"wait_until_done", true}});
    CO_TRY(const auto context,
           co_await call("POST", concat("/api/v1/sandboxes/", *id->as_string(), "/contexts"), body));
    const auto* exit_code = context.find("exit_code");
    if (exit_code == nullptr || exit_code->as_integer() == nullptr || *exit_code->as_integer() != 0) {
      co_return fail(Code::kInternal, "/bin/true did not exit with 0: " + context.dump());
    }
    co_return *id->as_string();
  }

  Task<Json> remove(std::string id) { return call("DELETE", "/api/v1/sandboxes/" + id, Json{}); }

 private:
  http::Client client_;
  std::string authorization_;
};

Result<std::vector<Series>> parse_contestants(int argc, char** argv) {
  std::vector<Series> series{{"atoll (create to output)", {}, {}}};
  for (int i = 4; i < argc; ++i) {
    Series next{argv[i], {}, {}};
    while (++i < argc && std::strcmp(argv[i], ";") != 0) {
      next.command.emplace_back(argv[i]);
    }
    series.push_back(std::move(next));
  }
  return series;
}

void print_table(const std::vector<Series>& series) {
  const double reference = percentile(series[0].milliseconds, 0.5);
  std::printf("%-28s %9s %9s %9s %9s %12s\n", "", "p50 ms", "p90 ms", "p99 ms", "min ms",
              "p50 / atoll");
  for (const auto& row : series) {
    std::printf("%-28s %9.2f %9.2f %9.2f %9.2f %12.2f\n", row.name.c_str(),
                percentile(row.milliseconds, 0.5), percentile(row.milliseconds, 0.9),
                percentile(row.milliseconds, 0.99), percentile(row.milliseconds, 0),
                percentile(row.milliseconds, 0.5) / reference);
  }
}

Result<> compare(int argc, char** argv) {
  if (argc < 4) {
    return fail(Code::kInvalidArgument, "usage: atoll-bench URL KEY_FILE ROUNDS [NAME COMMAND... ;]...");
  }
  TRY(auto url, http::parse_url(argv[1]));
  TRY(const auto key, read_file(argv[2]));
  const auto rounds = parse_u64(argv[3]).value_or(0);
  TRY(auto series, parse_contestants(argc, argv));
  Series deletes{"atoll delete (off the path)", {}, {}};
  io::Reactor reactor;
  AtollApi api{reactor, std::move(url), std::string{trim(key)}};

  for (std::uint64_t round = 0; round < rounds + 3; ++round) {
    for (auto& contestant : series) {
      const auto begin = Clock::now();
      if (contestant.command.empty()) {
        TRY(const auto id, reactor.run_until_complete(api.create_and_run_true()));
        const double taken = elapsed_ms(begin);
        const auto delete_begin = Clock::now();
        TRY_DO(reactor.run_until_complete(api.remove(id)));
        if (round >= 3) {  // the first rounds warm caches for everybody
          contestant.milliseconds.push_back(taken);
          deletes.milliseconds.push_back(elapsed_ms(delete_begin));
        }
      } else {
        TRY_DO(run_program(contestant.command));
        if (round >= 3) {
          contestant.milliseconds.push_back(elapsed_ms(begin));
        }
      }
    }
  }
  series.push_back(std::move(deletes));
  print_table(series);
  return {};
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  if (const auto result = atl::compare(argc, argv); !result) {
    std::fprintf(stderr, "atoll-bench: %s\n", result.error().message.c_str());
    return 1;
  }
  return 0;
}
