// Files, trees, searches and watches in the guest protocol: the values. Part of guest/wire.h, which
// says how they are used and is what to include.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace atl::guest {

// Limits that both sides keep to.
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 255;
// Of an absolute path below a requested one.
inline constexpr std::size_t kMaxResultPathBytes = 2 * kMaxPathBytes + 1;
inline constexpr std::size_t kMaxTreeDepth = 256;  // components of a path in a tree
inline constexpr std::uint64_t kMaxTreeEntries = 1000000;
inline constexpr std::size_t kMaxAttributes = 256;  // extended, of one file
inline constexpr std::size_t kMaxAttributeBytes =
    std::size_t{96} * 1024;                            // names and values together
inline constexpr std::size_t kMaxDiffTrees = 66;       // of either side
inline constexpr std::size_t kMaxPatternBytes = 4096;  // of a glob or a regular expression
inline constexpr std::uint32_t kMaxSearchResults = 100000;
inline constexpr std::uint64_t kMaxSearchFileBytes = 64ULL * 1024 * 1024;
inline constexpr std::size_t kMaxLineBytes = 4096;                        // of a match
inline constexpr std::size_t kMaxGlobs = 64;                              // included, and excluded
inline constexpr std::size_t kMaxGlobListBytes = std::size_t{32} * 1024;  // of either list together
inline constexpr std::uint32_t kMaxContextLines = 20;

enum class FileType : std::uint8_t {
  kFile = 1,
  kDirectory = 2,
  kSymlink = 3,
  kOther = 4,
  kHardlink = 5,  // only in a tree
  kFifo = 6,      // only in a tree
};

struct Attribute {  // extended: user.*, security.capability, system.posix_acl_*
  std::string name;
  std::string value;
  auto operator<=>(const Attribute&) const = default;
};

// What costs more than a look at the inode; only when it was asked for.
struct FileDetails {
  std::string owner;  // names as the sandbox has them, or the numbers
  std::string group;
  std::string resolved_path;                 // of a symlink: where it leads; empty: nowhere
  FileType resolved_type = FileType::kFile;  // of what is there
  std::vector<Attribute> attributes;         // user.* alone
};

struct FileInfo {
  std::string name;
  std::string path;
  FileType type = FileType::kFile;
  std::uint64_t size = 0;
  std::uint32_t mode = 0;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t modified_unix_ns = 0;
  std::string link_target;  // when a symlink
  std::uint64_t inode = 0;
  std::int64_t changed_unix_ns = 0;  // of content, mode, owner or names; nobody can set it
  std::optional<FileDetails> details;
};

// Which content of which file. Another one after every write, change of mode and replacement.
struct FileVersion {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t changed_unix_ns = 0;
  bool operator==(const FileVersion&) const = default;
};

struct PathRequest {  // kStat (lstat), kListDirectory
  std::string path;
  std::string user;
  bool details = false;     // FileInfo::details of every entry
  std::uint32_t depth = 1;  // kListDirectory: 2 is also what is in its directories, and so on
};
struct ReadFileRequest {
  std::string path;
  std::string user;
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
};
struct WriteFileRequest {
  std::string path;
  std::string user;
  std::uint32_t mode = 0644;  // of a new file; an existing file keeps its mode
  bool make_parents = true;
  // Refused with reason precondition_failed: at the beginning, and again before the file is
  // replaced.
  bool only_new = false;                    // when there is something already
  std::optional<FileVersion> only_version;  // when it is not this one
  // The new content belongs to the user; otherwise an existing file keeps its owner.
  bool take_ownership = false;
  std::vector<Attribute> attributes;  // user.* alone: the new content has these and no others
};
struct MakeDirectoryRequest {
  std::string path;
  std::string user;
  std::uint32_t mode = 0755;
  bool make_parents = false;  // also: an existing directory is fine
};
struct MoveRequest {
  std::string source;
  std::string destination;
  std::string user;
  bool make_parents = true;
};
struct RemoveRequest {
  std::string path;
  std::string user;
  bool recursive = true;
  bool missing_ok = true;
};
struct ChangeModeRequest {
  std::string path;
  std::string user;
  // UINT32_MAX leaves each as it is. Owners count only with root's rights.
  std::uint32_t mode = UINT32_MAX;
  std::uint32_t uid = UINT32_MAX;
  std::uint32_t gid = UINT32_MAX;
};

struct SyncFileRequest {
  std::string path;  // what is gone is durably gone: then what it was in is synced
  std::string user;
  bool tree = false;  // everything below it too
};

struct WatchRequest {
  std::string path;  // a directory, or a file: then its replacement and removal are seen too
  std::string user;
  bool recursive = false;  // also below, including directories made or moved in later
};
// A rename is kRename of the old path and kCreate of the new one. kWrite events that follow each
// other may be one. kOverflow: changes below `path` were missed, look again.
enum class FileEventType : std::uint8_t {
  kCreate = 1,
  kWrite = 2,
  kRemove = 3,
  kRename = 4,
  kChmod = 5,  // mode, owner, times or attributes
  kOverflow = 6,
};
struct FileEvent {
  FileEventType event = FileEventType::kCreate;
  std::string path;  // absolute, below the path as it was requested
};

// kReadTree and kWriteTree take a PathRequest. Reading: everything below the directory, not the
// directory itself, a directory before its content; a path that is a file gives one entry with its
// name, and a file with several names below the path is a hard link to the first from its second
// on. Devices, sockets, FIFOs and extended attributes are left out, and so are kernel filesystems
// (/proc, /sys) below the path. Writing: the directory is made if missing, existing directories are
// kept, files and symlinks are replaced, missing parents are made. A hard link is to something
// written before it.
struct TreeEntry {
  std::string path;                 // relative, without ".", ".." and empty components
  FileType type = FileType::kFile;  // not kOther
  std::uint32_t mode = 0644;        // writing: set-id bits count only when the user is root
  std::uint64_t size = 0;           // of a file; otherwise 0
  std::int64_t modified_unix_ns = 0;
  // Writing: count only when the user is root. UINT32_MAX leaves them to the user.
  std::uint32_t uid = UINT32_MAX;
  std::uint32_t gid = UINT32_MAX;
  // Of a symlink: may point anywhere, is never followed. Of a hard link: the path of a file of this
  // tree; a symlink in that place is linked, not followed.
  std::string link_target;
  // By name. Writing: none but user.* are needed, others may be refused by the kernel.
  std::vector<Attribute> attributes;
};
// kDiff: how the root that the directories `to` make together (topmost first, as overlayfs stacks
// layers) differs from the root that `from` make. Directories are absolute and do not change; all
// are on one filesystem. Changes come sorted, a directory before what is in it.
struct DiffRequest {
  std::vector<std::string> from;  // none: an empty root
  std::vector<std::string> to;
  // The bytes follow each file as in a tree, files with several names are hard links from the
  // second on, and directories on the way to a change come too.
  bool contents = false;
};
enum class ChangeType : std::uint8_t {
  kAdded = 1,
  kChanged = 2,  // its content, type, mode, owner, attributes, time or number of names
  kRemoved = 3,  // with everything in it
  // With contents: a directory that has a change in it or another time; a file with several names.
  kKept = 4,
};
struct Change {
  ChangeType change = ChangeType::kAdded;
  TreeEntry entry;  // as it is; as it was when removed. May be of kOther (a socket)
  // What it was before, when changed.
  FileType old_type = FileType::kFile;
  std::uint64_t old_size = 0;
  std::uint32_t old_mode = 0;
};
struct TreeDone {
  std::uint64_t files = 0;        // with hard links
  std::uint64_t directories = 0;  // as entries, without parents made on the way
  std::uint64_t symlinks = 0;
  std::uint64_t bytes = 0;
};

// Everything below `path` (or the file `path`) whose relative path matches `name_glob` and, with
// `content_regex`, every line of these files that matches. No symlink is followed.
struct SearchRequest {
  std::string path;
  std::string user;
  // * ? [..] within a component, ** for any number of components; empty: everything.
  std::string name_glob;
  std::string content_regex;         // POSIX extended, over the bytes of a line; empty: names only
  bool ignore_case = false;          // ASCII, of both
  std::uint32_t max_results = 1000;  // 1 to kMaxSearchResults
  std::uint64_t max_file_bytes = kMaxSearchFileBytes;  // larger files are skipped; at least 1
  // Globs like name_glob: one of the included must match too (when there are any), none of the
  // excluded; what is excluded is not entered either.
  std::vector<std::string> included;
  std::vector<std::string> excluded;
  std::uint32_t context_lines = 0;  // before and after each line that matches
};
struct Match {
  std::string path;  // absolute
  FileType type = FileType::kFile;
  std::uint64_t size = 0;
  std::uint64_t line_number = 0;  // from 1; 0: the name matched
  std::string line_text;          // without its newline, at most kMaxLineBytes, any bytes
  bool context = false;           // the line is near one that matches; does not count as a result
};
struct SearchEnd {
  bool truncated = false;           // there are more than max_results
  std::uint64_t skipped_files = 0;  // unreadable, too large, too deep; binary files do not count
};

}  // namespace atl::guest
