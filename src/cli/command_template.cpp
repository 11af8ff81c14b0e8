// `atoll template`: list, add from an image, pull again, build from a Dockerfile, delete.
//
// What the server does is shown as it happens: the log of a build is the output of this command.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/template_log.h"
#include "cli/tree_archive.h"

namespace atl::cli {
namespace {

std::string template_path(std::string_view name, std::string_view rest = {}) {
  return concat("/api/v1/templates", name.empty() ? "" : "/", http::percent_encode(name), rest);
}

std::string state_of(const Json& value) {
  const Json* status = value.find("status");
  const Json* creation = status == nullptr ? nullptr : status->find("creation");
  return creation == nullptr ? "-" : text_member(*creation, "state");
}

std::string image_of(const Json& value) {
  const Json* spec = value.find("spec");
  const Json* container = spec == nullptr ? nullptr : spec->find("mainContainer");
  const auto image = container == nullptr ? std::string{} : text_member(*container, "image");
  return image.empty() ? "(built)" : image;
}

Task<int> list_templates(CommandContext& context) {
  Api api{context.reactor, context.endpoint};
  CO_TRY(const Json data, co_await api.call("GET", template_path("")));
  const Json* templates = data.find("templates");
  if (context.options.json || templates == nullptr || templates->as_array() == nullptr) {
    context.console.print(data.dump_pretty() + "\n");
    co_return 0;
  }
  const UnixMillis now = SystemWallClock{}.now();
  Table table{{"TEMPLATE", "SCOPE", "STATE", "UPDATED", "IMAGE"}};
  std::string names;
  for (const Json& value : *templates->as_array()) {
    const auto updated = parse_rfc3339(text_member(value, "updated_at"));
    names += printable(text_member(value, "template_id")) + "\n";
    table.add({printable(text_member(value, "template_id")), printable(text_member(value, "scope")),
               printable(state_of(value)),
               updated ? concat(format_age((now - *updated) / 1000), " ago") : "-",
               printable(image_of(value))});
  }
  context.console.print(context.options.quiet ? names : table.render());
  co_return 0;
}

// The password comes from standard input: arguments are visible to every user of the host.
Result<Json> read_login(const CommandContext& context, const TemplateOptions& options) {
  std::string password;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(context.console.input(), buffer, sizeof buffer);
    if (got < 0) {
      return fail_errno("reading the password");
    }
    if (got == 0 || password.size() > sizeof buffer) {
      break;
    }
    password.append(buffer, static_cast<std::size_t>(got));
  }
  while (password.ends_with('\n') || password.ends_with('\r')) {
    password.pop_back();
  }
  return Json::object({{"username", options.username}, {"password", std::move(password)}});
}

Task<int> add_from_image(CommandContext& context, const TemplateOptions& options) {
  Api api{context.reactor, context.endpoint};
  Json resources = Json::object({{"memory", options.memory.empty() ? "2Gi" : options.memory}});
  Json body = Json::object(
      {{"template_id", options.names[0]},
       {"spec",
        Json::object({{"mainContainer", Json::object({{"image", options.names[1]},
                                                      {"resources", std::move(resources)}})}})}});
  if (!options.username.empty()) {
    CO_TRY(auto login, read_login(context, options));
    body.set("registry_auth", std::move(login));
  }
  if (options.insecure_registry) {
    body.set("insecure_registry", true);
  }
  CO_TRY_DO(co_await api.call("POST", template_path(""), std::move(body)));
  CO_TRY(const auto response, co_await api.open(template_path(options.names[0], "/logs")));
  co_return co_await show_template_log(context, *response, options.names[0]);
}

Task<std::size_t> read_counted(int file, const std::string& name, std::span<char> buffer,
                               std::uint64_t& sent) {
  const ssize_t got = ::read(file, buffer.data(), buffer.size());
  if (got < 0) {
    co_return fail_errno(concat("reading ", name));
  }
  sent += static_cast<std::uint64_t>(got);
  co_return static_cast<std::size_t>(got);
}

Task<int> add_from_archive(CommandContext& context, const TemplateOptions& options) {
  const Fd file{::open(options.archive.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) {
    co_return fail_errno(concat("opening ", options.archive));
  }
  std::uint64_t sent = 0;
  const auto total = static_cast<std::uint64_t>(info.st_size);
  const http::BodySource source = [&](std::span<char> buffer) {
    return read_counted(file.get(), options.archive, buffer, sent);
  };
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto response,
         co_await with_progress(
             context.console, context.options.quiet,
             [&] { return concat("sending ", format_bytes(sent), " of ", format_bytes(total)); },
             api.open_upload(template_path(options.names[0], "/import"), {}, total, source)));
  co_return co_await show_template_log(context, *response, options.names[0]);
}

Task<std::size_t> take_front(std::string& text, std::span<char> buffer) {
  const std::size_t size = text.copy(buffer.data(), buffer.size());
  text.erase(0, size);
  co_return size;
}

Task<int> pull_template(CommandContext& context, const TemplateOptions& options) {
  Api api{context.reactor, context.endpoint};
  Json body = Json::object();
  if (!options.username.empty()) {
    CO_TRY(auto login, read_login(context, options));
    body.set("registry_auth", std::move(login));
  }
  std::string text = body.dump();
  const http::BodySource source = [&text](std::span<char> buffer) {
    return take_front(text, buffer);
  };
  CO_TRY(const auto response, co_await api.open_upload(template_path(options.names[0], "/pull"),
                                                       {{"Content-Type", "application/json"}},
                                                       body.dump().size(), source));
  co_return co_await show_template_log(context, *response, options.names[0]);
}

// The Dockerfile must be inside the context, because the server sees nothing else.
Result<std::string> dockerfile_in(const std::string& directory, const std::string& file) {
  std::error_code error;
  const auto inside =
      std::filesystem::relative(file.empty() ? directory + "/Dockerfile" : file, directory, error);
  std::string text = inside.generic_string();
  if (error || text.empty() || text.starts_with("..")) {
    return fail(Code::kInvalidArgument,
                concat(file, " is not inside ", directory, ", which is all the server gets"));
  }
  if (!std::filesystem::is_regular_file(directory + "/" + text, error)) {
    return fail(Code::kNotFound, concat("there is no ", text, " in ", directory));
  }
  return text;
}

Task<int> build_template(CommandContext& context, const TemplateOptions& options) {
  const std::string directory = options.names.empty() ? "." : options.names[0];
  CO_TRY(const std::string dockerfile, dockerfile_in(directory, options.file));
  std::string name = options.name;
  if (name.empty()) {
    std::error_code error;
    name = to_lower(std::filesystem::canonical(directory, error).filename().string());
  }
  std::string query = concat("?dockerfile=", http::percent_encode(dockerfile));
  for (const std::string& argument : options.build_arguments) {
    query += concat("&arg=", http::percent_encode(argument));
  }
  for (const auto& [key, value] :
       {std::pair{"target", options.target}, std::pair{"network", options.network},
        std::pair{"no_cache", std::string{options.no_cache ? "true" : ""}},
        std::pair{"insecure_registry", std::string{options.insecure_registry ? "true" : ""}}}) {
    query += value.empty() ? "" : concat("&", key, "=", http::percent_encode(value));
  }
  http::Headers headers;
  if (!options.username.empty()) {
    CO_TRY(const auto login, read_login(context, options));
    headers.add("X-Registry-Auth", base64_encode(login.dump()));
  }
  CO_TRY(auto archive, TreeArchive::open(context.reactor, directory));
  std::uint64_t sent = 0;
  const http::BodySource source = [&](std::span<char> buffer) {
    return archive->read(buffer, sent);
  };
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto response,
         co_await with_progress(
             context.console, context.options.quiet,
             [&] { return concat("sending the build context: ", format_bytes(sent)); },
             api.open_upload(template_path(name, "/build") + query, std::move(headers),
                             std::nullopt, source)));
  co_return co_await show_template_log(context, *response, name);
}

Task<int> remove_templates(CommandContext& context, const TemplateOptions& options) {
  Api api{context.reactor, context.endpoint};
  for (const std::string& name : options.names) {
    CO_TRY_DO(co_await api.call("DELETE", template_path(name)));
    context.console.print(printable(name) + "\n");
  }
  co_return 0;
}

}  // namespace

Task<int> command_template(CommandContext& context, const TemplateOptions& options) {
  switch (options.action) {
    case TemplateOptions::Action::kList:
      return list_templates(context);
    case TemplateOptions::Action::kAdd:
      return options.archive.empty() ? add_from_image(context, options)
                                     : add_from_archive(context, options);
    case TemplateOptions::Action::kPull:
      return pull_template(context, options);
    case TemplateOptions::Action::kBuild:
      return build_template(context, options);
    case TemplateOptions::Action::kRemove:
      break;
  }
  return remove_templates(context, options);
}

}  // namespace atl::cli
