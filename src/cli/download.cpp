// A sandbox's files onto this machine.
//
// Everything the sandbox says is hostile. Each local directory is opened relative to its parent
// with O_NOFOLLOW, each file is written under a temporary name and renamed over its own, so a tree
// that claims a name to be a link first and a directory later cannot lead us out of the
// destination. Set-id bits are dropped.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "base/strings.h"
#include "cli/api_error.h"
#include "cli/copy.h"
#include "cli/descriptor_gate.h"
#include "cli/drain.h"
#include "cli/limits.h"
#include "cli/temporary_file.h"

namespace atl::cli {
namespace {

Result<Fd> open_directory(int parent, const std::string& name, int extra_flags) {
  Fd fd{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | extra_flags)};
  if (!fd) {
    return fail_errno(name);
  }
  return fd;
}

struct LocalPlace {
  std::string directory;  // exists
  std::string name;
};

// "a/b" -> "a" and "b"; "b" -> "." and "b".
LocalPlace split_local(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return {".", std::string{path}};
  }
  return {slash == 0 ? "/" : std::string{path.substr(0, slash)},
          std::string{path.substr(slash + 1)}};
}

// "/a/." -> "/a", "/." -> "/", "" -> "."
std::string without_dot(std::string_view path) {
  if (path.ends_with("/.")) {
    path.remove_suffix(1);
  }
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return path.empty() ? "." : std::string{path};
}

bool is_local_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Task<std::string> Download::run(std::string path, std::string destination) {
  if (destination == "-") {
    CO_TRY_DO(co_await receive_to_output(path));
    co_return destination;
  }
  const bool contents_only = path.empty() || last_component(path).empty();  // "dir/.", "/", "."
  path = without_dot(path);
  CO_TRY(auto found, co_await remote_.stat(path));
  if (!found) {
    co_return fail(Code::kNotFound, concat(remote_.sandbox_id(), ":", path, " does not exist"),
                   "file_not_found");
  }
  bool is_directory = found->type == RemoteFile::Type::kDirectory;
  if (found->type == RemoteFile::Type::kSymlink) {  // named by the person: follow it
    is_directory = (co_await remote_.list(path)).has_value();
  }
  LocalPlace place = split_local(destination);
  if (is_local_directory(destination)) {
    place = {destination, contents_only ? "." : last_component(path)};
  } else if (!is_directory && destination.ends_with('/')) {
    co_return fail(Code::kNotFound, concat("there is no directory ", destination));
  }
  if (place.name != "." && !is_entry_name(place.name)) {
    co_return fail(Code::kInvalidArgument,
                   concat("cannot copy ", path, " to ", destination, ": it has no name there"));
  }
  CO_TRY(const auto directory, open_directory(AT_FDCWD, place.directory, 0));
  if (is_directory) {
    CO_TRY_DO(co_await receive_directory(path, directory.get(), place.name, 0));
  } else {
    tally_.total_bytes = found->type == RemoteFile::Type::kFile ? found->size : 0;
    CO_TRY_DO(co_await receive_file(path, directory.get(), place.name, found->mode));
  }
  co_return place.name == "." ? place.directory : join_path(place.directory, place.name);
}

Task<> Download::receive_to_output(std::string path) {
  CO_TRY(auto writer, SharedWriter::open(context_.reactor, context_.console.output()));
  CO_TRY(auto response, co_await remote_.read(path));
  tally_.total_bytes = response->body().length().value_or(0);
  WriteToOutput write{*writer};
  CO_TRY_DO(co_await drain(*response, context_.endpoint, tally_.bytes, write));
  ++tally_.files;
  co_return ok();
}

Task<> Download::receive_file(std::string path, int directory, std::string name, unsigned mode) {
  auto received = co_await receive_content(path, directory, std::move(name), mode);
  if (!received) {
    co_return fail(name_file(std::move(received).error(), path));
  }
  ++tally_.files;
  co_return ok();
}

Task<> Download::receive_content(std::string path, int directory, std::string name, unsigned mode) {
  CO_TRY(auto response, co_await remote_.read(path));
  TemporaryFile file{directory, mode};
  if (!file.is_open()) {
    co_return fail_errno(concat("creating ", name));
  }
  WriteToFile write{file.fd()};
  CO_TRY_DO(co_await drain(*response, context_.endpoint, tally_.bytes, write));
  co_return file.publish(name);
}

Task<> Download::receive_directory(std::string path, int parent, std::string name,
                                   std::size_t depth) {
  if (depth > kMaxTreeDepth) {
    co_return fail(Code::kResourceExhausted, concat(path, " is nested too deeply"));
  }
  if (name != "." && ::mkdirat(parent, name.c_str(), 0777) != 0 && errno != EEXIST) {
    co_return fail_errno(concat("creating ", name));
  }
  CO_TRY(const auto directory, open_directory(parent, name, O_NOFOLLOW));
  ++tally_.directories;
  CO_TRY(auto entries, co_await remote_.list(path));
  for (auto& entry : entries) {
    if (++tally_.entries > kMaxTreeEntries) {
      co_return fail(Code::kResourceExhausted,
                     concat(path, " has more than ", kMaxTreeEntries, " files"));
    }
    if (!is_entry_name(entry.name)) {
      co_return fail(Code::kDataLoss,
                     concat("the sandbox named a file \"", entry.name, "\", which no file can be"));
    }
    auto entry_path = join_path(path, entry.name);
    CO_TRY_DO(co_await receive_entry(std::move(entry_path), directory.get(), std::move(entry),
                                     depth + 1));
  }
  co_return ok();
}

Task<> Download::receive_entry(std::string path, int directory, RemoteFile entry,
                               std::size_t depth) {
  switch (entry.type) {
    case RemoteFile::Type::kFile:
      co_return co_await receive_file(std::move(path), directory, std::move(entry.name),
                                      entry.mode);
    case RemoteFile::Type::kDirectory:
      co_return co_await receive_directory(std::move(path), directory, std::move(entry.name),
                                           depth);
    case RemoteFile::Type::kSymlink:
      co_return co_await receive_link(std::move(path), directory, std::move(entry));
    case RemoteFile::Type::kOther:
      break;
  }
  ++tally_.skipped;
  context_.console.report(concat("skipped ", path, ": neither file, directory nor link"));
  co_return ok();
}

Task<> Download::receive_link(std::string path, int directory, RemoteFile entry) {
  auto& target = entry.link_target;
  if (target.empty()) {  // a listing need not say it
    CO_TRY(const auto found, co_await remote_.stat(path));
    target = found ? found->link_target : std::string{};
  }
  if (target.empty() || target.find('\0') != std::string::npos) {
    ++tally_.skipped;
    context_.console.report(concat("skipped ", path, ": the link's target is unknown"));
    co_return ok();
  }
  // A new link under a temporary name, renamed over what is there: never through what is there.
  const auto temporary = concat(".atoll-", random_hex(kTemporaryNameHexDigits));
  if (::symlinkat(target.c_str(), directory, temporary.c_str()) != 0) {
    co_return fail_errno(concat("creating the link ", entry.name));
  }
  if (::renameat(directory, temporary.c_str(), directory, entry.name.c_str()) != 0) {
    auto error = errno_error(concat("creating the link ", entry.name));
    ::unlinkat(directory, temporary.c_str(), 0);
    co_return fail(std::move(error));
  }
  ++tally_.links;
  co_return ok();
}

}  // namespace atl::cli
