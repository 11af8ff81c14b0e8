// Local files into a sandbox.
//
// Below the named directory symbolic links are never followed: each directory is opened relative to
// its parent with O_NOFOLLOW, so a tree that changes while it is copied cannot lead us elsewhere.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "cli/copy.h"
#include "cli/descriptor_gate.h"
#include "cli/fair_turn.h"
#include "cli/limits.h"

namespace atl::cli {
namespace {

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// The names in a directory, sorted so that two copies do the same in the same order.
Result<std::vector<std::string>> entry_names(const Fd& directory, const std::string& path) {
  TRY(Fd own, directory.duplicate());
  std::unique_ptr<DIR, DirectoryCloser> stream{::fdopendir(own.get())};
  if (!stream) {
    return fail_errno(concat("reading ", path));
  }
  own.release();  // the stream's now
  std::vector<std::string> names;
  for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
  }
  if (errno != 0) {
    return fail_errno(concat("reading ", path));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_link(int directory, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(directory, name.c_str(), target.data(), target.size());
  if (size < 0) {
    return fail_errno(concat("reading the link ", name));
  }
  target.resize(static_cast<std::size_t>(size));
  return target;
}

// The name a local source has for people: of "." and ".." the directory's own.
std::string source_name(const std::string& local) {
  auto name = last_component(local);
  if (name == ".." || name.empty()) {
    std::unique_ptr<char, decltype(&std::free)> real{::realpath(local.c_str(), nullptr),
                                                     &std::free};
    name = real ? last_component(real.get()) : std::string{};
  }
  return name;
}

// Feeds a request body from a descriptor and remembers its own failure, which the client would
// otherwise report as one of the connection.
class FileSource {
 public:
  FileSource(std::unique_ptr<SharedReader> reader, std::optional<std::uint64_t> length,
             CopyTally& tally)
      : reader_(std::move(reader)), left_(length), tally_(tally) {}

  Task<std::size_t> read(std::span<char> buffer) {
    if (left_) {
      buffer =
          buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), *left_)));
      if (buffer.empty()) {
        co_return 0;
      }
    }
    CO_TRY_DO(co_await turn_.step());
    auto got = co_await reader_->read(buffer);
    if (got && *got == 0 && left_ && *left_ > 0) {
      got = fail(Code::kAborted, "the file became shorter while it was copied");
    }
    if (!got) {
      failure_ = got.error();
      co_return fail(std::move(got).error());
    }
    if (left_) {
      *left_ -= *got;
    }
    tally_.bytes += *got;
    co_return *got;
  }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  std::unique_ptr<SharedReader> reader_;
  std::optional<std::uint64_t> left_;
  CopyTally& tally_;
  FairTurn turn_;
  std::optional<Error> failure_;
};

}  // namespace

Task<std::string> Upload::run(std::string local, std::string destination) {
  if (destination.empty()) {
    destination = ".";
  }
  if (local == "-") {
    if (destination.ends_with('/')) {
      co_return fail(Code::kInvalidArgument,
                     "standard input has no name; name the file: SANDBOX:/dir/name");
    }
    CO_TRY_DO(co_await send_stream(context_.console.input(), destination, std::nullopt));
    ++tally_.files;
    co_return destination;
  }
  Fd source{::open(local.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!source) {
    co_return fail_errno(local);
  }
  struct stat info{};
  if (::fstat(source.get(), &info) != 0) {
    co_return fail_errno(local);
  }
  const bool is_directory = S_ISDIR(info.st_mode);
  const bool contents_only = is_directory && (local == "." || local.ends_with("/."));
  std::string target = destination;
  if (!contents_only) {
    CO_TRY(target, co_await place(destination, source_name(local), is_directory));
  }
  if (is_directory) {
    CO_TRY_DO(co_await send_directory(std::move(source), target, 0));
  } else {
    tally_.total_bytes = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
    CO_TRY_DO(co_await send_file(std::move(source), target));
  }
  CO_TRY_DO(co_await remote_.apply(std::move(fixups_)));
  co_return target;
}

// An existing directory receives the source inside it; else the destination is its new name.
Task<std::string> Upload::place(std::string destination, std::string name, bool is_directory) {
  CO_TRY(auto found, co_await remote_.stat(destination));
  bool into = found && found->type == RemoteFile::Type::kDirectory;
  if (found && found->type == RemoteFile::Type::kSymlink) {
    into = (co_await remote_.list(destination)).has_value();
  }
  if (into || (!is_directory && destination.ends_with('/'))) {
    if (name.empty()) {
      co_return destination;  // the root directory, into another
    }
    co_return join_path(destination, name);
  }
  if (found && is_directory) {
    co_return fail(Code::kAlreadyExists,
                   concat(remote_.sandbox_id(), ":", destination, " exists and is no directory"));
  }
  co_return destination;
}

Task<> Upload::send_stream(int fd, std::string path, std::optional<std::uint64_t> length) {
  CO_TRY(auto reader, SharedReader::open(context_.reactor, fd));
  FileSource source{std::move(reader), length, tally_};
  auto written = co_await remote_.write(
      path, length, [&source](std::span<char> buffer) { return source.read(buffer); });
  if (source.failure()) {
    co_return fail(*source.failure());
  }
  if (!written) {
    co_return fail(std::move(written).error());
  }
  co_return ok();
}

Task<> Upload::send_file(Fd file, std::string path) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    co_return fail_errno(path);
  }
  std::optional<std::uint64_t> length;
  if (S_ISREG(info.st_mode)) {
    length = static_cast<std::uint64_t>(info.st_size);
  }
  auto sent = co_await send_stream(file.get(), path, length);
  if (!sent) {
    co_return fail(name_file(std::move(sent).error(), path));
  }
  ++tally_.files;
  if ((info.st_mode & 0111U) != 0) {
    static constexpr char kDigits[] = "01234567";
    const unsigned mode = info.st_mode & 0777U;
    fixups_.push_back({.verb = "mode",
                       .argument = {kDigits[mode >> 6], kDigits[mode >> 3 & 7], kDigits[mode & 7]},
                       .path = path});
  }
  co_return ok();
}

Task<> Upload::send_directory(Fd directory, std::string path, std::size_t depth) {
  if (depth > kMaxTreeDepth) {
    co_return fail(Code::kResourceExhausted, concat(path, " is nested too deeply"));
  }
  CO_TRY_DO(co_await remote_.make_directory(path));
  ++tally_.directories;
  CO_TRY(const auto names, entry_names(directory, path));
  for (const auto& name : names) {
    CO_TRY_DO(co_await send_entry(directory.get(), name, join_path(path, name), depth + 1));
  }
  co_return ok();
}

Task<> Upload::send_entry(int directory, std::string name, std::string path, std::size_t depth) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    co_return fail_errno(path);
  }
  if (S_ISLNK(info.st_mode)) {
    CO_TRY(auto target, read_link(directory, name));
    fixups_.push_back({.verb = "link", .argument = std::move(target), .path = path});
    ++tally_.links;
    co_return ok();
  }
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    ++tally_.skipped;
    context_.console.report(concat("skipped ", path, ": neither file, directory nor link"));
    co_return ok();
  }
  Fd entry{
      ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)};
  if (!entry) {
    co_return fail_errno(path);
  }
  if (S_ISDIR(info.st_mode)) {
    co_return co_await send_directory(std::move(entry), std::move(path), depth);
  }
  co_return co_await send_file(std::move(entry), std::move(path));
}

}  // namespace atl::cli
