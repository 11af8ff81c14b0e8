// template, cert, dev, doctor, completion, version: the server, the host and the program itself.
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>

#include "base/strings.h"
#include "cli/grammar.h"

namespace atl::cli {
namespace {

void add_template(CLI::App& app, Raw& raw) {
  TemplateOptions& options = raw.templates;
  add_choice(app, raw, "ACTION", raw.what, {"ls", "add", "pull", "build", "rm"},
             "ls, add, pull, build or rm")
      ->required();
  app.add_option("ARG", options.names, "add: NAME IMAGE; pull, rm: NAME; build: DIR");
  app.add_option("--archive", options.archive, "add: an image archive instead of an image")
      ->type_name("FILE");
  app.add_option("-f,--file", options.file, "build: the Dockerfile [DIR/Dockerfile]")
      ->type_name("FILE");
  app.add_option("-n,--name", options.name, "build: name of the template [the directory's]")
      ->type_name("NAME");
  app.add_option("--build-arg", options.build_arguments, "build: value of an ARG (repeatable)")
      ->type_name("K=V")
      ->allow_extra_args(false);
  app.add_option("--target", options.target, "build: stop at this stage")->type_name("STAGE");
  app.add_option("--build-network", options.network, "build: network of RUN, none or host [none]")
      ->type_name("NET");
  app.add_flag("--no-cache", options.no_cache, "build: run every step again");
  app.add_option("--memory", options.memory, "add: memory of its sandboxes [2Gi]")
      ->type_name("SIZE");
  app.add_option("--username", options.username, "Account at the registry")->type_name("NAME");
  app.add_flag("--insecure-registry", options.insecure_registry,
               "Allow plain HTTP and unknown certificates");
}

Result<Command> finish_template(Raw& raw) {
  using Action = TemplateOptions::Action;
  TemplateOptions& options = raw.templates;
  const std::size_t count = options.names.size();
  if (raw.what == "ls") {
    options.action = Action::kList;
  } else if (raw.what == "add") {
    options.action = Action::kAdd;
    if (count != (options.archive.empty() ? 2U : 1U)) {
      return usage_error(
          "write: atoll template add NAME IMAGE, or: atoll template add NAME --archive FILE");
    }
  } else if (raw.what == "build") {
    options.action = Action::kBuild;
    if (count > 1) {
      return usage_error("write: atoll template build [-n NAME] [-f Dockerfile] DIR");
    }
  } else {
    options.action = raw.what == "pull" ? Action::kPull : Action::kRemove;
    if (count == 0 || (raw.what == "pull" && count > 1)) {
      return usage_error(concat("which template? For example: atoll template ", raw.what, " NAME"));
    }
  }
  return options;
}

void add_cert(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "WHAT", raw.what, {"dev"},
             "dev: a local authority and a certificate it signed")
      ->required();
  app.add_option("--dir", raw.cert.directory, "Where to put the files [atoll-cert]")
      ->type_name("DIR");
  app.add_option("--name", raw.cert.names, "Names and addresses [localhost,*.localhost,127.0.0.1]")
      ->type_name("LIST");
  app.add_option("--domain", raw.cert.domain,
                 "Also for this domain and every name below it, for serve --domain")
      ->type_name("NAME");
}

Result<Command> finish_cert(Raw& raw) {
  return raw.cert;
}

void add_dev(CLI::App& app, Raw& raw) {
  app.add_flag("--print", raw.dev.print, "Start no server, only print");
  // Read by main.cpp, which starts the server; here for help and completion.
  app.add_option("--listen", raw.what, "Where the server shall answer [127.0.0.1:7070]")
      ->type_name("ADDR:PORT");
}

Result<Command> finish_dev(Raw& raw) {
  return raw.dev;
}

void add_completion(CLI::App& app, Raw& raw) {
  add_choice(app, raw, "SHELL", raw.completion.shell, {"bash", "zsh", "fish"}, "bash, zsh or fish")
      ->required();
}

Result<Command> finish_completion(Raw& raw) {
  return raw.completion;
}

void add_nothing(CLI::App&, Raw&) {}

Result<Command> finish_complete(Raw& raw) {
  return CompleteOptions{.words = std::move(raw.tail).value_or(std::vector<std::string>{})};
}

Result<Command> finish_doctor(Raw&) {
  return DoctorOptions{};
}

Result<Command> finish_version(Raw&) {
  return VersionOptions{};
}

constexpr std::array<CommandGrammar, 7> kOtherGrammar{{
    {.name = "template", .add_options = add_template, .finish = finish_template},
    {.name = "cert", .add_options = add_cert, .finish = finish_cert},
    {.name = "dev", .add_options = add_dev, .finish = finish_dev},
    {.name = "doctor", .add_options = add_nothing, .finish = finish_doctor},
    {.name = "completion", .add_options = add_completion, .finish = finish_completion},
    {.name = "complete",
     .add_options = add_nothing,
     .finish = finish_complete,
     .takes_words = true,
     .hidden = true},
    {.name = "version", .add_options = add_nothing, .finish = finish_version},
}};

}  // namespace

std::span<const CommandGrammar> other_grammar() {
  return kOtherGrammar;
}

}  // namespace atl::cli
