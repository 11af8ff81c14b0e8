#include "cli/remote_files.h"

#include "base/strings.h"
#include "cli/limits.h"
#include "cli/volume.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

// Runs in the sandbox; every word after it is data.
constexpr std::string_view kFixupScript =
    "while [ $# -ge 3 ]; do case $1 in link) ln -sfn -- \"$2\" \"$3\" ;; "
    "mode) chmod -- \"$2\" \"$3\" ;; esac || exit 1; shift 3; done";

RemoteFile::Type type_from(std::string_view text) {
  if (text == "file") {
    return RemoteFile::Type::kFile;
  }
  if (text == "dir" || text == "directory") {
    return RemoteFile::Type::kDirectory;
  }
  return text == "symlink" ? RemoteFile::Type::kSymlink : RemoteFile::Type::kOther;
}

unsigned parse_mode(std::string_view octal) {
  unsigned mode = 0;
  for (const char c : octal.substr(0, 8)) {
    if (c < '0' || c > '7') {
      return 0644;
    }
    mode = mode * 8 + static_cast<unsigned>(c - '0');
  }
  return octal.empty() ? 0644 : mode & 0777U;
}

}  // namespace

bool is_entry_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<RemoteFile> decode_file(const Json& json) {
  RemoteFile file;
  file.name = text_member(json, "name");
  file.type = type_from(text_member(json, "type"));
  file.mode = parse_mode(text_member(json, "mode"));
  file.link_target = text_member(json, "link_target");
  const Json* size = json.find("size");
  if (size != nullptr && size->as_integer() && *size->as_integer() >= 0) {
    file.size = static_cast<std::uint64_t>(*size->as_integer());
  }
  if (json.as_object() == nullptr) {
    return fail(Code::kDataLoss, "the server described a file in a way we do not understand");
  }
  return file;
}

std::string join_path(std::string_view directory, std::string_view name) {
  while (directory.size() > 1 && directory.ends_with('/')) {
    directory.remove_suffix(1);
  }
  return directory == "/" ? concat("/", name) : concat(directory, "/", name);
}

std::string last_component(std::string_view path) {
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const auto slash = path.rfind('/');
  const auto name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name == "." ? std::string{} : std::string{name};
}

std::string RemoteFiles::path_of(std::string_view verb, std::string_view path) const {
  auto out = where_ == Where::kSandbox ? file_path(sandbox_id_, verb, path)
                                       : concat(volume_path(sandbox_id_, "/files"), verb,
                                                "?path=", http::percent_encode(path));
  if (!user_.empty()) {
    out += concat("&user=", http::percent_encode(user_));
  }
  return out;
}

Task<std::optional<RemoteFile>> RemoteFiles::stat(std::string path) {
  auto answer = co_await api_.call("GET", path_of("/stat", path));
  if (!answer) {
    if (answer.error().reason == "file_not_found") {  // not: there is no such sandbox
      co_return std::optional<RemoteFile>{};
    }
    co_return fail(std::move(answer).error());
  }
  CO_TRY(auto file, decode_file(*answer));
  co_return std::optional{std::move(file)};
}

Task<std::vector<RemoteFile>> RemoteFiles::list(std::string path) {
  CO_TRY(auto answer, co_await api_.call("GET", path_of("/list", path)));
  std::vector<RemoteFile> files;
  const Json* entries = answer.find("entries");
  if (entries != nullptr && entries->as_array()) {
    for (const auto& entry : *entries->as_array()) {
      CO_TRY(auto file, decode_file(entry));
      files.push_back(std::move(file));
    }
  }
  co_return files;
}

Task<> RemoteFiles::make_directory(std::string path) {
  CO_TRY_DO(co_await api_.call("POST", concat(path_of("", path), "&mkdir=true&recursive=true")));
  co_return ok();
}

Task<std::unique_ptr<http::ClientResponse>> RemoteFiles::read(std::string path) {
  return api_.open(path_of("", path));
}

Task<> RemoteFiles::write(std::string path, std::optional<std::uint64_t> length,
                          http::BodySource source) {
  CO_TRY_DO(co_await api_.upload(path_of("", path), length, std::move(source)));
  co_return ok();
}

Task<> RemoteFiles::apply_to_volume(std::vector<Fixup> fixups) {
  for (const auto& fixup : fixups) {
    if (fixup.verb == "mode") {
      CO_TRY_DO(co_await api_.call("POST", volume_path(sandbox_id_, "/files/chmod"),
                                   Json::object({{"path", fixup.path}, {"mode", fixup.argument}})));
    }
  }
  co_return ok();
}

Task<> RemoteFiles::apply(std::vector<Fixup> fixups) {
  if (where_ == Where::kVolume) {
    co_return co_await apply_to_volume(std::move(fixups));
  }
  auto new_batch = [] {
    Json batch = Json::array();
    for (const auto word : {std::string_view{"/bin/sh"}, std::string_view{"-c"}, kFixupScript,
                            std::string_view{"sh"}}) {
      batch.push(word);
    }
    return batch;
  };
  Json batch = new_batch();
  std::size_t bytes = 0;
  for (const auto& fixup : fixups) {
    for (const auto& word : {fixup.verb, fixup.argument, fixup.path}) {
      batch.push(word);
      bytes += word.size() + 8;
    }
    if (bytes >= kMaxArgumentBytes) {
      CO_TRY_DO(co_await apply_batch(std::exchange(batch, new_batch())));
      bytes = 0;
    }
  }
  if (bytes > 0) {
    CO_TRY_DO(co_await apply_batch(std::move(batch)));
  }
  co_return ok();
}

Task<> RemoteFiles::apply_batch(Json command) {
  Json body = Json::object({{"type", "cmd"},
                            {"cmd", Json::object({{"command", std::move(command)}})},
                            {"wait_until_done", true}});
  if (!user_.empty()) {
    body.set("user", user_);
  }
  CO_TRY(auto done, co_await api_.call("POST", concat(sandbox_path(sandbox_id_), "/contexts"),
                                       std::move(body), kCreateDeadline));
  (void)co_await api_.call("DELETE", context_path(sandbox_id_, text_member(done, "id")));
  const Json* code = done.find("exit_code");
  if (code == nullptr || code->as_integer() == nullptr || *code->as_integer() != 0) {
    co_return fail(Code::kFailedPrecondition,
                   concat("setting modes and links in the sandbox failed: ",
                          trim(text_member(done, "stderr"))));
  }
  co_return ok();
}

}  // namespace atl::cli
