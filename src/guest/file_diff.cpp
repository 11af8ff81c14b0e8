// kDiff: how one root differs from another, as a walk over both at once.
//
// Only names that the trees above the common ones mention are looked at (merged_tree.h), in sorted
// order, so the same roots always give the same answer and an unchanged part costs nothing. What
// counts as a change is what a program in the sandbox could see: content, type, mode, owner,
// attributes, modification time, number of names. The time of a directory does not: it changes with
// every name in it. It is told nevertheless, as kKept, so that an archive of the change is exact.
//
// Nothing is kept but the directories on the way down and the first names of files with several,
// and both are bounded. What is too deep or too long fails: a diff with a hole is no answer.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/limits.h"
#include "guest/merged_tree.h"
#include "guest/same_content.h"

namespace atl::guest {
namespace {

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

bool same_time(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

FileType type_of(const struct stat& status) {
  return S_ISFIFO(status.st_mode) ? FileType::kFifo : make_file_info("", "", status).type;
}

Result<Fd> open_node(const Node& node, const std::string& name, const std::string& path) {
  Fd fd{::openat(node.place->directory.get(), name.c_str(),
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  if (!fd) {
    return fail_file("reading", path);
  }
  return fd;
}

Result<std::string> read_link(const Node& node, const std::string& name, const std::string& path) {
  std::string target(kMaxPathBytes, '\0');
  const ssize_t size =
      ::readlinkat(node.place->directory.get(), name.c_str(), target.data(), target.size());
  if (size <= 0) {
    return fail_file("reading", path);
  }
  target.resize(static_cast<std::size_t>(size));
  return target;
}

// A name under comparison.
struct Name {
  const std::string& text;
  const std::string& path;  // relative to the root
};

class Comparison {
 public:
  Comparison(FileChannel& channel, bool contents)
      : channel_(channel), contents_(contents), last_sent_ms_(now_ms()) {}

  Result<> compare_directories(const Stack& from, const Stack& to, const std::string& prefix,
                               std::size_t depth) {
    const std::size_t common = common_trees(from, to);
    if (common == from.size() && common == to.size()) {
      return {};
    }
    std::vector<std::string> names;
    const std::size_t bytes_before = name_bytes_;
    TRY_DO(append_names(from, from.size() - common, prefix, names, name_bytes_));
    TRY_DO(append_names(to, to.size() - common, prefix, names, name_bytes_));
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      TRY_DO(compare_name(from, to, name, prefix + name, depth));
      TRY_DO(breathe());
    }
    name_bytes_ = bytes_before;
    return {};
  }

 private:
  struct Ancestor {
    std::string name;
    std::string path;
    Node node;
  };

  Result<> compare_name(const Stack& from, const Stack& to, const std::string& name,
                        const std::string& path, std::size_t depth) {
    if (depth > kMaxTreeDepth || path.size() > kMaxPathBytes) {
      return fail(Code::kFailedPrecondition,
                  concat("the tree is deeper than ", kMaxTreeDepth, " levels or ", kMaxPathBytes,
                         " bytes: ", path.substr(0, 256)),
                  "tree_too_deep");
    }
    NameLookup lookup{name, path};
    TRY(const auto before, lookup.find(from));
    TRY(const auto after, lookup.find(to));
    const Name here{name, path};
    if (!after) {
      return before ? send_change(ChangeType::kRemoved, here, *before, nullptr) : Result<>{};
    }
    if (!before || (before->status.st_mode & S_IFMT) != (after->status.st_mode & S_IFMT)) {
      TRY_DO(send_change(before ? ChangeType::kChanged : ChangeType::kAdded, here, *after,
                         before ? &*before : nullptr));
    } else if (!after->is_directory()) {
      return compare_files(here, *before, *after);
    } else {
      return compare_kept_directory(here, *before, *after, depth);
    }
    if (after->is_directory()) {
      return compare_directories({}, after->below, path + "/", depth + 1);
    }
    return {};
  }

  // Two things of one type that are no directories. Names of one file are told together, or those
  // of them that are new would be a file of their own in an archive.
  Result<> compare_files(Name here, const Node& before, const Node& after) {
    TRY(const bool changed, differs(here, before, after));
    if (changed) {
      return send_change(ChangeType::kChanged, here, after, &before);
    }
    const bool named_twice = S_ISREG(after.status.st_mode) && after.status.st_nlink > 1;
    return contents_ && named_twice && before.place != after.place
               ? send_change(ChangeType::kKept, here, after, nullptr)
               : Result<>{};
  }

  // A directory that both have: its own changes, then those in it.
  Result<> compare_kept_directory(Name here, const Node& before, const Node& after,
                                  std::size_t depth) {
    bool told = false;
    if (before.place != after.place) {
      TRY(const bool changed, metadata_differs(here, before, after));
      if (changed) {
        TRY_DO(send_change(ChangeType::kChanged, here, after, &before));
        told = true;
      } else if (contents_ && !same_time(before.status.st_mtim, after.status.st_mtim)) {
        TRY_DO(send_change(ChangeType::kKept, here, after, nullptr));
        told = true;
      }
    }
    if (!told && contents_) {
      ancestors_.push_back({here.text, here.path, after});
    }
    TRY_DO(compare_directories(before.below, after.below, here.path + "/", depth + 1));
    if (!told && contents_ && !ancestors_.empty() && ancestors_.back().path == here.path) {
      ancestors_.pop_back();
    }
    return {};
  }

  // Mode, owner and attributes.
  static Result<bool> metadata_differs(Name here, const Node& before, const Node& after) {
    const struct stat& one = before.status;
    const struct stat& other = after.status;
    if (one.st_mode != other.st_mode || one.st_uid != other.st_uid || one.st_gid != other.st_gid) {
      return true;
    }
    if (!S_ISREG(one.st_mode) && !S_ISDIR(one.st_mode)) {
      return false;  // the rest has no attributes of its own
    }
    TRY(const Fd left, open_node(before, here.text, here.path));
    TRY(const Fd right, open_node(after, here.text, here.path));
    TRY(const auto old_attributes, read_attributes(left.get(), here.path));
    TRY(const auto new_attributes, read_attributes(right.get(), here.path));
    return old_attributes != new_attributes;
  }

  Result<bool> differs(Name here, const Node& before, const Node& after) {
    if (before.place == after.place) {
      return false;
    }
    const struct stat& one = before.status;
    const struct stat& other = after.status;
    if (!same_time(one.st_mtim, other.st_mtim) || one.st_nlink != other.st_nlink ||
        one.st_size != other.st_size || one.st_rdev != other.st_rdev) {
      return true;
    }
    TRY(const bool metadata, metadata_differs(here, before, after));
    if (metadata || (!S_ISREG(one.st_mode) && !S_ISLNK(one.st_mode))) {
      return metadata;
    }
    if (S_ISLNK(one.st_mode)) {
      TRY(const auto old_target, read_link(before, here.text, here.path));
      TRY(const auto new_target, read_link(after, here.text, here.path));
      return old_target != new_target;
    }
    TRY(const Fd left, open_node(before, here.text, here.path));
    TRY(const Fd right, open_node(after, here.text, here.path));
    TRY(const bool same,
        same_content(left.get(), right.get(), static_cast<std::uint64_t>(one.st_size), here.path,
                     [this] { return breathe(); }));
    return !same;
  }

  Result<> send_change(ChangeType change, Name here, const Node& node, const Node* before) {
    for (Ancestor& ancestor : std::exchange(ancestors_, {})) {
      TRY_DO(send_one(ChangeType::kKept, {ancestor.name, ancestor.path}, ancestor.node, nullptr));
    }
    return send_one(change, here, node, before);
  }

  Result<> send_one(ChangeType type, Name here, const Node& node, const Node* before) {
    if (++changes_ > kMaxTreeEntries) {
      return fail(Code::kResourceExhausted,
                  concat("there are more than ", kMaxTreeEntries, " changes"), "too_many_entries");
    }
    const FileInfo info = make_file_info(here.text, here.path, node.status);
    Change change{.change = type,
                  .entry = {.path = here.path,
                            .type = type_of(node.status),
                            .mode = info.mode,
                            .size = info.type == FileType::kFile ? info.size : 0,
                            .modified_unix_ns = info.modified_unix_ns,
                            .uid = info.uid,
                            .gid = info.gid}};
    if (info.type == FileType::kSymlink) {
      TRY(change.entry.link_target, read_link(node, here.text, here.path));
    }
    if (before != nullptr) {
      change.old_type = type_of(before->status);
      change.old_mode = before->status.st_mode & 07777U;
      change.old_size =
          S_ISREG(before->status.st_mode) ? static_cast<std::uint64_t>(before->status.st_size) : 0;
    }
    if (!contents_ || type == ChangeType::kRemoved) {
      return send(change);
    }
    return send_whole(here, node, std::move(change));
  }

  Result<> send_whole(Name here, const Node& node, Change change) {
    if (change.entry.type != FileType::kFile && change.entry.type != FileType::kDirectory) {
      return send(change);
    }
    if (change.entry.type == FileType::kFile && node.status.st_nlink > 1 &&
        !remember_name(node, change.entry)) {
      return send(change);
    }
    TRY(const Fd fd, open_node(node, here.text, here.path));
    TRY(change.entry.attributes, read_attributes(fd.get(), here.path));
    TRY_DO(send(change));
    return send_bytes(fd.get(), change.entry.size, here.path);
  }

  // False: the entry is a hard link now, to a file that was sent before.
  bool remember_name(const Node& node, TreeEntry& entry) {
    const auto key = std::pair{node.place->tree, node.status.st_ino};
    if (const auto first = first_names_.find(key); first != first_names_.end()) {
      entry.type = FileType::kHardlink;
      entry.size = 0;
      entry.link_target = first->second;
      return false;
    }
    if (first_name_bytes_ < kMaxTreeNameBytes) {
      first_name_bytes_ += entry.path.size() + sizeof(std::string);
      first_names_.emplace(key, entry.path);
    }
    return true;
  }

  Result<> send_bytes(int fd, std::uint64_t size, const std::string& path) {
    std::string buffer(static_cast<std::size_t>(std::min<std::uint64_t>(size, kMaxFilePieceBytes)),
                       '\0');
    for (std::uint64_t left = size; left > 0;) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
      const ssize_t got = ::read(fd, buffer.data(), wanted);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        return got == 0 ? fail(file_error("reading", path, EIO)) : fail_file("reading", path);
      }
      const auto piece = static_cast<std::size_t>(got);
      TRY_DO(channel_.send(Kind::kData, std::string_view{buffer}.substr(0, piece)));
      left -= piece;
    }
    last_sent_ms_ = now_ms();
    return {};
  }

  Result<> send(const Change& change) { return channel_.send(Kind::kChange, encode(change)); }

  // Nobody who waits for an answer sees nothing for long.
  Result<> breathe() {
    const std::int64_t now = now_ms();
    if (now - last_sent_ms_ < kDiffAliveMs) {
      return {};
    }
    last_sent_ms_ = now;
    TRY_DO(channel_.send(Kind::kSynced));
    return channel_.flush();
  }

  FileChannel& channel_;
  const bool contents_;
  std::int64_t last_sent_ms_;
  std::uint64_t changes_ = 0;
  std::size_t name_bytes_ = 0;
  std::vector<Ancestor> ancestors_;  // on the way down, not sent so far
  std::map<std::pair<std::size_t, ino_t>, std::string> first_names_;
  std::size_t first_name_bytes_ = 0;
};

// The same directory is the same tree on both sides.
Result<Stack> open_trees(const std::vector<std::string>& directories,
                         std::map<std::string, std::shared_ptr<Place>>& known) {
  Stack stack;
  for (const std::string& directory : directories) {
    auto& place = known[directory];
    if (!place) {
      TRY(place, open_root(directory, known.size()));
    }
    stack.push_back(place);
    if (hides_below(*place)) {
      break;
    }
  }
  return stack;
}

}  // namespace

Result<> send_diff(FileChannel& channel, const DiffRequest& request) {
  std::map<std::string, std::shared_ptr<Place>> known;
  TRY(const Stack from, open_trees(request.from, known));
  TRY(const Stack to, open_trees(request.to, known));
  Comparison comparison{channel, request.contents};
  TRY_DO(comparison.compare_directories(from, to, "", 1));
  return channel.send(Kind::kEnd);
}

}  // namespace atl::guest
