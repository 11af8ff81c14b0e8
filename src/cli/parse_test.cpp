#include "cli/parse.h"

#include <gtest/gtest.h>

#include "cli/help.h"

namespace atl::cli {
namespace {

using Words = std::vector<std::string>;

Environment test_environment() {
  return {.host_checks = {},
          .version = "1",
          .other_commands = {
              {"serve", "Run the server", "  --listen ADDR:PORT   where the API answers\n"}}};
}

template <class T>
T parse_as(const Words& words) {
  auto parsed = parse_arguments(words, test_environment());
  EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message);
  if (!parsed) {
    return {};
  }
  const auto* invocation = std::get_if<Invocation>(&*parsed);
  EXPECT_NE(invocation, nullptr);
  const T* command = invocation == nullptr ? nullptr : std::get_if<T>(&invocation->command);
  EXPECT_NE(command, nullptr);
  return command == nullptr ? T{} : *command;
}

std::string refusal(const Words& words) {
  auto parsed = parse_arguments(words, test_environment());
  EXPECT_FALSE(parsed.has_value());
  return parsed ? "" : parsed.error().message;
}

std::string help(const Words& words) {
  auto parsed = parse_arguments(words, test_environment());
  const auto* text = parsed ? std::get_if<HelpText>(&*parsed) : nullptr;
  EXPECT_NE(text, nullptr);
  return text == nullptr ? "" : text->text;
}

TEST(Parse, RunTakesItsOptionsAndLeavesTheCommandAlone) {
  const auto run = parse_as<RunOptions>(
      {"run",       "-t",   "node", "--rm", "-e",       "A=1", "-e",    "B=x=y",
       "-u",        "root", "-w",   "/tmp", "--memory", "1Gi", "--cpu", "2",
       "--timeout", "1.5",  "-i",   "--",   "sh",       "-c",  "echo",  "--rm"});
  EXPECT_EQ(run.sandbox.template_name, "node");
  EXPECT_TRUE(run.remove);
  EXPECT_EQ(run.process.env, (EnvVars{{"A", "1"}, {"B", "x=y"}}));
  EXPECT_EQ(run.process.user, "root");
  EXPECT_EQ(run.process.cwd, "/tmp");
  EXPECT_EQ(run.sandbox.memory, "1Gi");
  EXPECT_EQ(run.sandbox.cpu, "2");
  EXPECT_EQ(run.process.timeout_ms, 1500U);
  EXPECT_TRUE(run.process.interactive);
  EXPECT_EQ(run.process.argv, (Words{"sh", "-c", "echo", "--rm"}));
}

TEST(Parse, TheCommandBeginsAtItsFirstWordEvenIfThatIsOneOfOurs) {
  EXPECT_EQ(parse_as<RunOptions>({"run", "ls", "-l", "--rm"}).process.argv,
            (Words{"ls", "-l", "--rm"}));
  EXPECT_FALSE(parse_as<RunOptions>({"run", "ls", "--rm"}).remove);
  EXPECT_EQ(parse_as<RunOptions>({"run", "grep", "--", "-x"}).process.argv,
            (Words{"grep", "--", "-x"}));
  EXPECT_EQ(parse_as<RunOptions>({"run", "--", "--help"}).process.argv, (Words{"--help"}));
  EXPECT_EQ(parse_as<RunOptions>({"run", "--", "a", "--", "b"}).process.argv,
            (Words{"a", "--", "b"}));
  EXPECT_EQ(parse_as<RunOptions>({"run", "--", ""}).process.argv, (Words{""}));
}

TEST(Parse, ExecNamesASandboxFirst) {
  const auto exec = parse_as<ExecOptions>({"exec", "-u", "root", "sb-1", "--", "rm", "x"});
  EXPECT_EQ(exec.id, "sb-1");
  EXPECT_EQ(exec.process.argv, (Words{"rm", "x"}));
  EXPECT_EQ(parse_as<ExecOptions>({"exec", "sb-1", "ls", "-a"}).process.argv, (Words{"ls", "-a"}));
  EXPECT_EQ(parse_as<ExecOptions>({"exec", "sb-1", "-w", "/", "--", "ls"}).process.cwd, "/");
  EXPECT_NE(refusal({"exec"}).find("which sandbox"), std::string::npos);
  EXPECT_NE(refusal({"exec", "sb-1"}).find("no command"), std::string::npos);
}

TEST(Parse, OptionValuesThatLookLikeListsAreTakenAsTheyAre) {
  const auto run = parse_as<RunOptions>({"run", "-e", "A=[1,2]", "-e", "B=", "--", "true"});
  EXPECT_EQ(run.process.env, (EnvVars{{"A", "[1,2]"}, {"B", ""}}));
}

TEST(Parse, TheOtherCommands) {
  EXPECT_TRUE(parse_as<ListOptions>({"ls", "-a"}).all);
  EXPECT_EQ(parse_as<InspectOptions>({"inspect", "sb-1"}).id, "sb-1");
  EXPECT_EQ(parse_as<RemoveOptions>({"rm", "a", "b"}).ids, (Words{"a", "b"}));
  EXPECT_TRUE(parse_as<RemoveOptions>({"rm", "--all"}).all);
  EXPECT_EQ(parse_as<CopyOptions>({"cp", "-", "a:/x"}).source, "-");
  EXPECT_EQ(parse_as<CreateOptions>({"create", "--ttl", "10m"}).sandbox.ttl_seconds, 600U);
  const auto shell = parse_as<ShellOptions>({"shell", "--keep", "-t", "node", "--", "top", "-b"});
  EXPECT_TRUE(shell.keep && shell.id.empty() && shell.sandbox.template_name == "node");
  EXPECT_EQ(shell.process.argv, (Words{"top", "-b"}));
  EXPECT_EQ(parse_as<ShellOptions>({"shell", "a", "--attach", "ctx-1"}).attach, "ctx-1");
  EXPECT_EQ(parse_as<ReplOptions>({"repl", "-l", "bash", "a"}).language, "bash");
  EXPECT_TRUE(parse_as<LogsOptions>({"logs", "-f", "a", "ctx-1"}).follow);
  EXPECT_EQ(parse_as<FilesOptions>({"files", "cat", "a:/x", "b:/y"}).places.at(1).path, "/y");
  EXPECT_TRUE(parse_as<WatchOptions>({"watch", "-r", "a", "/x"}).recursive);
  EXPECT_EQ(parse_as<UpdateOptions>({"update", "a", "--memory", "2Gi"}).sandbox.memory, "2Gi");
  EXPECT_TRUE(parse_as<StatsOptions>({"stats", "-w"}).watch);
  const auto create = parse_as<CreateOptions>({"create", "-c", "3", "-l", "a=b", "-l", "c=d"});
  EXPECT_EQ(create.count, 3U);
  EXPECT_EQ(create.sandbox.labels, (EnvVars{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(parse_as<ListOptions>({"ls", "-l", "a=b"}).labels, (EnvVars{{"a", "b"}}));
  parse_as<DoctorOptions>({"doctor"});
  parse_as<VersionOptions>({"--version"});
}

TEST(Parse, GlobalOptionsStandBeforeOrBehindTheCommand) {
  for (const Words& words : {Words{"-o", "json", "-q", "ls"}, Words{"ls", "-q", "-o", "json"}}) {
    auto parsed = parse_arguments(words, test_environment());
    ASSERT_TRUE(parsed.has_value());
    const auto& global = std::get<Invocation>(*parsed).global;
    EXPECT_TRUE(global.json);
    EXPECT_TRUE(global.quiet);
  }
}

TEST(Parse, MistakesSayWhatToType) {
  struct Case {
    Words words;
    std::string expected;
  };
  const Case cases[] = {
      {{"runn"}, "did you mean `atoll run`?"},
      {{"list"}, "there is no command \"list\""},
      {{"sevre"}, "did you mean `atoll serve`?"},
      {{"run"}, "no command given"},
      {{"run", "--bogus", "x"}, "unknown option --bogus"},
      {{"--bogus"}, "unknown option --bogus"},
      {{"ls", "extra"}, "unexpected \"extra\""},
      {{"ls", "--", "x"}, "takes no command"},
      {{"rm"}, "rm wants ids, or --all"},
      {{"rm", "--all", "x"}, "not both"},
      {{"inspect"}, "SANDBOX"},
      {{"ls", "-o", "yaml"}, "yaml"},
      {{"ls", "-l", "x"}, "--label wants KEY=VALUE"},
      {{"create", "-n", "x", "-c", "2"}, "only be given to one"},
      {{"create", "--get"}, "wants a --name"},
      {{"update", "a"}, "what shall change?"},
      {{"files", "ls", "/tmp"}, "is not in a sandbox"},
      {{"shell", "--attach", "ctx-1"}, "--attach wants the sandbox"},
      {{"run", "--memory", "lots", "--", "x"}, "--memory lots"},
      {{"run", "--cpu", "two", "--", "x"}, "--cpu two"},
      {{"run", "--timeout", "-5", "--", "x"}, "is no duration"},
      {{"run", "-e", "=x", "--", "x"}, "-e wants NAME=VALUE"},
      {{"run", "-e", "ATOLL_NO_SUCH_VARIABLE", "--", "x"}, "there is no such variable"},
  };
  for (const auto& test : cases) {
    const auto message = refusal(test.words);
    EXPECT_NE(message.find(test.expected), std::string::npos)
        << test.words.front() << ": " << message;
  }
}

TEST(Parse, EveryCommandHasHelpWithExamples) {
  const auto program = help({"--help"});
  EXPECT_EQ(program, help({}));
  EXPECT_EQ(program, help({"help"}));
  EXPECT_NE(program.find("serve"), std::string::npos);
  for (const auto* name :
       {"run",      "create", "exec",    "shell",  "repl",       "logs",    "ls",
        "update",   "stats",  "inspect", "rm",     "cp",         "files",   "watch",
        "template", "cert",   "dev",     "doctor", "completion", "version", "ssh"}) {
    EXPECT_NE(program.find(name), std::string::npos) << name;
    const auto text = help({name, "--help"});
    EXPECT_NE(text.find("Examples:\n  "), std::string::npos) << name;
    EXPECT_NE(text.find(std::string{"Usage: atoll "} + name), std::string::npos) << name;
    EXPECT_EQ(text, help({"help", name}));
  }
}

TEST(Values, Durations) {
  struct Case {
    const char* text;
    std::uint64_t expected;  // 0: refused
  };
  const Case cases[] = {
      {"30", 30'000},     {"1.5", 1500},  {"90s", 90'000}, {"10m", 600'000}, {"2h", 7'200'000},
      {"1d", 86'400'000}, {"250ms", 250}, {"0", 0},        {"-1", 0},        {"", 0},
      {"s", 0},           {"1x", 0},      {"0x10", 0},     {"inf", 0},       {"1.2.3", 0},
      {"999999999999", 0}};
  for (const auto& test : cases) {
    EXPECT_EQ(parse_duration_ms(test.text).value_or(0), test.expected) << test.text;
  }
}

TEST(Values, Places) {
  using Kind = CopyPlace::Kind;
  struct Case {
    const char* text;
    Kind kind;
    const char* id;
    const char* path;
  };
  const Case cases[] = {{"-", Kind::kStandard, "", ""},
                        {"a.txt", Kind::kLocal, "", "a.txt"},
                        {"./a:b", Kind::kLocal, "", "./a:b"},
                        {"/x/a:b", Kind::kLocal, "", "/x/a:b"},
                        {":/x", Kind::kLocal, "", ":/x"},
                        {"sb-1:/x", Kind::kSandbox, "sb-1", "/x"},
                        {"sb-1:x/y", Kind::kSandbox, "sb-1", "x/y"},
                        {"sb-1:/a:b", Kind::kSandbox, "sb-1", "/a:b"},
                        {"sb-1:", Kind::kSandbox, "sb-1", ""}};
  for (const auto& test : cases) {
    const auto place = parse_place(test.text);
    EXPECT_EQ(place.kind, test.kind) << test.text;
    EXPECT_EQ(place.sandbox_id, test.id) << test.text;
    EXPECT_EQ(place.path, test.path) << test.text;
  }
}

}  // namespace
}  // namespace atl::cli
