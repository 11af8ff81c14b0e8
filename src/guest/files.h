// The file operations. Each runs in a worker that already is the caller's user, answers on the
// channel, and leaves unflushed what it sent last. A failure is the answer too.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/file_channel.h"
#include "guest/identity.h"
#include "guest/wire.h"

namespace atl::guest {

Result<> stat_file(FileChannel& channel, const PathRequest& request);
Result<> list_directory(FileChannel& channel, const PathRequest& request);
Result<> read_file(FileChannel& channel, const ReadFileRequest& request);
Result<> write_file(FileChannel& channel, const WriteFileRequest& request);
Result<> make_directory(FileChannel& channel, const MakeDirectoryRequest& request);
Result<> move_path(FileChannel& channel, const MoveRequest& request);
Result<> remove_path(FileChannel& channel, const RemoveRequest& request);
Result<> change_mode(FileChannel& channel, const ChangeModeRequest& request);
Result<> watch_files(FileChannel& channel, const WatchRequest& request);
Result<> read_tree(FileChannel& channel, const PathRequest& request);
Result<> write_tree(FileChannel& channel, const PathRequest& request);
Result<> search_files(FileChannel& channel, const SearchRequest& request);
Result<> sync_file(FileChannel& channel, const SyncFileRequest& request);
Result<> send_diff(FileChannel& channel, const DiffRequest& request);

// --- shared by the operations --------------------------------------------------------------

// The error of a failed call on `path`, with the reason clients look for (file_not_found ...).
Error file_error(std::string_view what, std::string_view path, int error_number);
// Uses errno.
std::unexpected<Error> fail_file(std::string_view what, std::string_view path);

struct SplitPath {
  std::string parent;  // absolute
  std::string name;
};
// Without trailing slashes. The name of "/" is "/".
std::string clean_path(std::string_view path);
SplitPath split_path(std::string_view path);

FileInfo make_file_info(const std::string& name, const std::string& path,
                        const struct stat& status);
// lstat of `name` in `directory`, with the target when it is a symlink.
Result<FileInfo> describe(int directory, const std::string& name, const std::string& path);
// What takes more than that. Best effort: what cannot be read is left out.
FileDetails find_details(const FileInfo& info, AccountNames& names);

// mkdir -p with mode 0755.
Result<> make_directories(const std::string& path);
// A new file with a name nobody else uses, in `directory`.
struct TemporaryFile {
  Fd fd;
  std::string name;
};
Result<TemporaryFile> make_temporary(int directory, int flags);
// From the current position of `from` to its end.
Result<> copy_content(int from, int to);
// Removes `name` in `directory` and, for a directory, everything below it, without following
// symlinks or entering other mounts.
Result<> remove_tree(int directory, const std::string& name, const std::string& path);
// Copies `name` with everything below it: content, mode, owner, times, symlinks.
Result<> copy_tree(int from_directory, const std::string& from_name, int to_directory,
                   const std::string& to_name, const std::string& path);

}  // namespace atl::guest
