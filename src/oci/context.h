// A build context: the tar that a client sent, as an index of entries and one file of contents.
//
// The archive is never unpacked into directories: each file's bytes lie in one spool file at a
// known place, and paths are only ever keys of a map. So no name, link or order in the archive can
// reach anything on this machine. Entries that .dockerignore names are left out. Blocking.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "oci/ignore.h"
#include "oci/tree.h"

namespace atl::oci {

struct ContextEntry {
  ArchiveEntry entry;
  std::uint64_t offset = 0;  // of its bytes in the spool file
  std::string sha256;        // of a file
};

class BuildContext {
 public:
  // Reads the archive in `archive_fd` and spools it into an unnamed file in `directory`.
  static Result<std::shared_ptr<BuildContext>> open(int archive_fd, const std::string& directory,
                                                    ArchiveLimits limits);

  // A small file, also one that is ignored. kNotFound.
  Result<std::string> read_text(std::string_view path, std::size_t max_bytes) const;
  // Whether the entries of a .dockerignore hide a path.
  const std::map<std::string, ContextEntry, std::less<>>& entries() const { return entries_; }
  int spool_fd() const { return spool_.get(); }

 private:
  Result<> read_archive(int archive_fd, ArchiveLimits limits);
  Result<> spool_file(ArchiveReader& reader, ContextEntry& entry, std::uint64_t& end);
  Result<> drop_ignored();

  Fd spool_;
  std::map<std::string, ContextEntry, std::less<>> entries_;
  std::map<std::string, ContextEntry, std::less<>> ignored_;
};

// One thing to copy, with the path it shall have below the destination.
struct CopyItem {
  ContextEntry source;
  std::string text;  // a heredoc's content; then the source has no place in the spool
  bool in_memory = false;
};

// What a COPY or ADD means: a directory of the image, and what comes below it.
struct CopyPlan {
  std::string root;  // absolute
  std::vector<CopyItem> items;
  std::string digest;  // of names, modes, contents and root
};

struct CopyRequest {
  std::vector<std::string> sources;
  std::string destination;                // absolute; a slash at its end says: a directory
  bool destination_is_directory = false;  // the image has a directory there
  std::vector<std::pair<std::string, std::string>> texts;  // heredocs: name, content
  bool unpack_archives = false;                            // ADD
};
struct CopyPlans {
  std::vector<CopyPlan> plans;         // in order
  std::vector<ContextEntry> archives;  // to be unpacked into the destination
};
Result<CopyPlans> plan_copy(const BuildContext& context, const CopyRequest& request);

// The items of a plan as a tree. Both must outlive it.
std::unique_ptr<TreeSource> open_copy_tree(const BuildContext& context, const CopyPlan& plan);
// An archive inside the context as a tree.
Result<std::unique_ptr<TreeSource>> open_archive_tree(const BuildContext& context,
                                                      const ContextEntry& archive,
                                                      ArchiveLimits limits);
// Whether the file is a tar, compressed or not.
bool is_archive(const BuildContext& context, const ContextEntry& entry);

}  // namespace atl::oci
