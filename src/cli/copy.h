// The two directions of `cp`. Both stream with one buffer, whatever the size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/commands.h"
#include "cli/remote_files.h"

namespace atl::cli {

// What has been done so far; read by the progress line while the copy runs.
struct CopyTally {
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;  // 0: unknown
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t links = 0;
  std::uint64_t skipped = 0;
  std::uint64_t entries = 0;
};

// The error with the file's name in it: of a thousand files, which?
inline Error name_file(Error error, std::string_view path) {
  const bool named = error.message.contains(path) || error.code == Code::kCancelled;
  return named ? error : std::move(error).note(path);
}

class Upload {
 public:
  Upload(CommandContext& context, RemoteFiles& remote, CopyTally& tally)
      : context_(context), remote_(remote), tally_(tally) {}
  // `local` may be "-". Returns where it went.
  Task<std::string> run(std::string local, std::string destination);

 private:
  Task<std::string> place(std::string destination, std::string name, bool is_directory);
  Task<> send_stream(int fd, std::string path, std::optional<std::uint64_t> length);
  Task<> send_file(Fd file, std::string path);
  Task<> send_directory(Fd directory, std::string path, std::size_t depth);
  Task<> send_entry(int directory, std::string name, std::string path, std::size_t depth);

  CommandContext& context_;
  RemoteFiles& remote_;
  CopyTally& tally_;
  std::vector<RemoteFiles::Fixup> fixups_;
};

class Download {
 public:
  Download(CommandContext& context, RemoteFiles& remote, CopyTally& tally)
      : context_(context), remote_(remote), tally_(tally) {}
  // `destination` may be "-". Returns where it went.
  Task<std::string> run(std::string path, std::string destination);

 private:
  Task<> receive_to_output(std::string path);
  Task<> receive_content(std::string path, int directory, std::string name, unsigned mode);
  Task<> receive_file(std::string path, int directory, std::string name, unsigned mode);
  Task<> receive_directory(std::string path, int parent, std::string name, std::size_t depth);
  Task<> receive_entry(std::string path, int directory, RemoteFile entry, std::size_t depth);
  Task<> receive_link(std::string path, int directory, RemoteFile entry);

  CommandContext& context_;
  RemoteFiles& remote_;
  CopyTally& tally_;
};

}  // namespace atl::cli
