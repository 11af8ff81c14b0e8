// A local directory as a tar stream, made by the system's tar while it is read.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>

#include "base/task.h"
#include "io/reactor.h"
#include "io/stream.h"

namespace atl::cli {

class TreeArchive {
 public:
  static Result<std::unique_ptr<TreeArchive>> open(io::Reactor& reactor,
                                                   const std::string& directory);
  ~TreeArchive();  // ends a tar that still runs
  TreeArchive(const TreeArchive&) = delete;
  TreeArchive& operator=(const TreeArchive&) = delete;

  // 0 at the end; fails when tar did.
  Task<std::size_t> read(std::span<char> buffer);
  // The same, and adds it to a count.
  Task<std::size_t> read(std::span<char> buffer, std::uint64_t& count);

 private:
  TreeArchive(io::Reactor& reactor, Fd output, pid_t pid)
      : stream_(reactor, std::move(output)), pid_(pid) {}
  io::FdStream stream_;
  pid_t pid_;
};

}  // namespace atl::cli
