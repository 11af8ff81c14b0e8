// atoll-bench PLAN_FILE: contestants take turns round by round, so the noise of a shared machine
// hits all of them alike; what counts are the ratios. Prints every sample as JSON; the judging is
// done where it can be tested (suite/stats.py). See plan.h for the plan.
#include <cstdio>

#include "base/fd.h"
#include "base/strings.h"
#include "runner.h"

namespace atl::bench {
namespace {

constexpr std::size_t kMostPlanBytes = 64U << 20;

void append_numbers(std::string& out, const char* name, const std::vector<double>& values) {
  out += concat(",\"", name, "\":[");
  char text[32];
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::snprintf(text, sizeof text, "%s%.1f", i == 0 ? "" : ",", values[i]);
    out += text;
  }
  out += "]";
}

void print(std::vector<std::unique_ptr<Runner>>& runners) {
  std::string out = "[";
  for (auto& runner : runners) {
    const Outcome& outcome = runner->outcome();
    out += out.size() > 1 ? ",\n{\"name\":" : "{\"name\":";
    append_json_string(out, runner->contestant().name);
    out += concat(",\"failures\":", outcome.failures, ",\"first_failure\":");
    append_json_string(out, outcome.first_failure);
    append_numbers(out, "us", outcome.microseconds);
    append_numbers(out, "after_us", outcome.after_microseconds);
    append_numbers(out, "turn_us", outcome.turn_microseconds);
    out += ",\"collected\":[";
    for (std::size_t i = 0; i < outcome.collected.size(); ++i) {
      out += i == 0 ? "" : ",";
      append_json_string(out, outcome.collected[i]);
    }
    out += "]}";
  }
  std::puts((out + "]").c_str());
}

Result<> take_turns(const Plan& plan, std::vector<std::unique_ptr<Runner>>& runners) {
  for (std::size_t round = 0; round < plan.warmup + plan.rounds; ++round) {
    for (auto& runner : runners) {
      TRY_DO(runner->turn(plan.seconds, round >= plan.warmup));
    }
  }
  return {};
}

Result<> run(int argc, char** argv) {
  if (argc != 2) {
    return fail(Code::kInvalidArgument, "usage: atoll-bench PLAN_FILE");
  }
  TRY(const auto text, read_file(argv[1], kMostPlanBytes));
  TRY(const Plan plan, parse_plan(text));
  std::vector<std::unique_ptr<Runner>> runners;
  Result<> outcome;
  for (const auto& contestant : plan.contestants) {
    runners.push_back(std::make_unique<Runner>(contestant, plan.workers, plan.silence_ms));
    if (outcome = runners.back()->setup(); !outcome) {
      break;
    }
  }
  if (outcome) {
    outcome = take_turns(plan, runners);
  }
  for (auto& runner : runners) {
    auto ended = runner->teardown();
    if (outcome && !ended) {
      outcome = std::move(ended);
    }
  }
  if (outcome) {
    print(runners);
  }
  return outcome;
}

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  if (const auto result = atl::bench::run(argc, argv); !result) {
    std::fprintf(stderr, "atoll-bench: %s\n", result.error().message.c_str());
    return 1;
  }
  return 0;
}
