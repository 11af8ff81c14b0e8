// RemoteFiles: the files of one sandbox through the API, as `cp` needs them.
//
// The server only passes on what the sandbox says, and the sandbox may lie: names are checked here
// before anybody makes local files of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/api.h"

namespace atl::cli {

struct RemoteFile {
  enum class Type : unsigned char { kFile, kDirectory, kSymlink, kOther };
  std::string name;
  Type type = Type::kFile;
  std::uint64_t size = 0;
  unsigned mode = 0644;
  std::string link_target;
};

// A name that can be one entry of a local directory and nothing else.
bool is_entry_name(std::string_view name);
Result<RemoteFile> decode_file(const Json& json);
// Joins with exactly one slash.
std::string join_path(std::string_view directory, std::string_view name);
// "/a/b/" -> "b"; "/" and "." -> "".
std::string last_component(std::string_view path);

class RemoteFiles {
 public:
  enum class Where : unsigned char { kSandbox, kVolume };
  RemoteFiles(Api& api, std::string sandbox_id, std::string user)
      : RemoteFiles(api, Where::kSandbox, std::move(sandbox_id), std::move(user)) {}
  RemoteFiles(Api& api, Where where, std::string id, std::string user)
      : api_(api), where_(where), sandbox_id_(std::move(id)), user_(std::move(user)) {}

  // …/files<verb>?path=<path>
  std::string path_of(std::string_view verb, std::string_view path) const;

  // Does not follow a symbolic link. nullopt: there is nothing.
  Task<std::optional<RemoteFile>> stat(std::string path);
  Task<std::vector<RemoteFile>> list(std::string path);
  Task<> make_directory(std::string path);  // with parents; an existing one is fine
  Task<std::unique_ptr<http::ClientResponse>> read(std::string path);
  Task<> write(std::string path, std::optional<std::uint64_t> length, http::BodySource source);

  // What a write cannot do: links and modes, by running a shell in the sandbox. A volume has no
  // shell: there modes only.
  struct Fixup {
    std::string verb;      // "link" or "mode"
    std::string argument;  // the target, or the octal mode
    std::string path;
  };
  Task<> apply(std::vector<Fixup> fixups);

  const std::string& sandbox_id() const { return sandbox_id_; }

 private:
  Task<> apply_to_volume(std::vector<Fixup> fixups);
  Task<> apply_batch(Json command);

  Api& api_;
  Where where_;
  std::string sandbox_id_;
  std::string user_;
};

}  // namespace atl::cli
