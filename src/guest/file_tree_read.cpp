// Sending a tree: each entry, and for a file exactly as many bytes as its entry said.
//
// A file is opened before its entry is sent, so what cannot be read is an error instead of a wrong
// archive; what changes its size afterwards is cut or filled with zeros, because the other side
// counts.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"
#include "guest/tree_visit.h"

namespace atl::guest {
namespace {

class TreeSender final : public Visitor {
 public:
  explicit TreeSender(FileChannel& channel)
      : channel_(channel), buffer_(kMaxFilePieceBytes, '\0') {}

  Result<Next> on_entry(const Visit& visit) override {
    const FileInfo info = make_file_info(visit.name, visit.path, visit.status);
    if (info.type == FileType::kOther) {
      return Next::kContinue;
    }
    if (++entries_ > kMaxTreeEntries) {
      return fail(Code::kResourceExhausted,
                  concat("the tree has more than ", kMaxTreeEntries, " entries"),
                  "too_many_entries");
    }
    TreeEntry entry{.path = visit.path,
                    .type = info.type,
                    .mode = info.mode,
                    .modified_unix_ns = info.modified_unix_ns,
                    .uid = info.uid,
                    .gid = info.gid};
    if (info.type == FileType::kFile) {
      TRY_DO(send_file(visit, std::move(entry)));
      return Next::kContinue;
    }
    if (info.type == FileType::kSymlink) {
      auto described = describe(visit.directory, visit.name, visit.path);
      if (!described || described->link_target.empty()) {
        return Next::kContinue;  // gone, or something else by now
      }
      entry.link_target = std::move(described->link_target);
    }
    TRY_DO(channel_.send(Kind::kTreeEntry, encode(entry)));
    return Next::kContinue;
  }

  Result<> on_obstacle(const std::string& path, Error error) override {
    (void)path;
    return fail(std::move(error));  // a tree with a hole is no answer
  }

 private:
  Result<> send_file(const Visit& visit, TreeEntry entry) {
    const Fd fd{::openat(visit.directory, visit.name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    struct stat status{};
    if (!fd && (errno == ENOENT || errno == ELOOP || errno == ENXIO)) {
      return {};  // gone, or something else by now
    }
    if (!fd || ::fstat(fd.get(), &status) != 0) {
      return fail_file("reading", visit.path);
    }
    if (!S_ISREG(status.st_mode)) {
      return {};
    }
    if (status.st_nlink > 1 && !remember_name(status, entry)) {
      return channel_.send(Kind::kTreeEntry, encode(entry));
    }
    entry.size = static_cast<std::uint64_t>(status.st_size);
    TRY_DO(channel_.send(Kind::kTreeEntry, encode(entry)));
    return send_content(fd.get(), entry.size, visit.path);
  }

  // False: the entry is a hard link now, to a file that was sent before. Beyond the bound further
  // names are files of their own.
  bool remember_name(const struct stat& status, TreeEntry& entry) {
    const auto key = std::pair{status.st_dev, status.st_ino};
    if (const auto first = names_.find(key); first != names_.end()) {
      entry.type = FileType::kHardlink;
      entry.link_target = first->second;
      return false;
    }
    if (names_bytes_ < kMaxTreeNameBytes) {
      names_bytes_ += entry.path.size() + sizeof(std::string);
      names_.emplace(key, entry.path);
    }
    return true;
  }

  Result<> send_content(int fd, std::uint64_t size, const std::string& path) {
    bool ended = false;
    for (std::uint64_t left = size; left > 0;) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer_.size()));
      ssize_t got = ended ? 0 : ::read(fd, buffer_.data(), wanted);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return fail_file("reading", path);
      }
      if (got == 0) {
        ended = true;
        std::memset(buffer_.data(), 0, wanted);
        got = static_cast<ssize_t>(wanted);
      }
      const auto piece = static_cast<std::size_t>(got);
      TRY_DO(channel_.send(Kind::kData, std::string_view{buffer_}.substr(0, piece)));
      left -= piece;
    }
    return {};
  }

  FileChannel& channel_;
  std::string buffer_;
  std::uint64_t entries_ = 0;
  std::map<std::pair<dev_t, ino_t>, std::string> names_;  // of files with several
  std::size_t names_bytes_ = 0;
};

}  // namespace

Result<> read_tree(FileChannel& channel, const PathRequest& request) {
  TreeSender sender{channel};
  TRY_DO(visit_tree(clean_path(request.path), sender));
  return channel.send(Kind::kEnd);
}

}  // namespace atl::guest
