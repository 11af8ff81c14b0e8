#include "layers/trash.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/names.h"

namespace atl::layers {

Trash::Trash(Fd directory, Volumes& volumes) : directory_(std::move(directory)), volumes_(volumes) {
  if (!volumes_.destroys_quickly()) {
    thread_ = std::jthread{[this](const std::stop_token& stopping) { run(stopping); }};
  }
}

Result<> Trash::throw_away(int parent_fd, const std::string& name) {
  const std::string thrown = unique_name("", name.substr(name.find_first_not_of('.')));
  if (::renameat(parent_fd, name.c_str(), directory_.get(), thrown.c_str()) != 0) {
    if (errno == ENOENT) {
      return {};
    }
    return fail_errno(concat("removing ", name));
  }
  ATOLL_FAULT_POINT("layers.trash.thrown");
  if (volumes_.destroys_quickly()) {
    // It is gone for everybody; a failure here only delays the space until the next start.
    if (const auto destroyed = volumes_.destroy(directory_.get(), thrown); !destroyed) {
      LOG_WARN("a deleted volume keeps its space until the next start", {"volume", thrown},
               {"error", destroyed.error()});
    }
    return {};
  }
  const std::scoped_lock guard{mutex_};
  has_work_ = true;
  changed_.notify_one();
  return {};
}

Result<std::vector<std::string>> Trash::empty() {
  TRY(const std::vector<std::string> names, list_names(directory_.get()));
  std::vector<std::string> done;
  for (const std::string& name : names) {
    TRY_DO(destroy(name));
    done.push_back(concat("finished deleting ", name));
  }
  return done;
}

Result<> Trash::destroy(const std::string& name) {
  const std::scoped_lock guard{destroying_};
  return volumes_.destroy(directory_.get(), name);
}

void Trash::stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

void Trash::run(const std::stop_token& stopping) {
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      if (!changed_.wait(lock, stopping, [this] { return has_work_; })) {
        return;
      }
      has_work_ = false;
    }
    const auto names = list_names(directory_.get());
    for (std::size_t i = 0; names && i < names->size() && !stopping.stop_requested(); ++i) {
      if (const auto destroyed = destroy((*names)[i]); !destroyed) {
        LOG_WARN("a deleted directory keeps its space until the next start",
                 {"directory", (*names)[i]}, {"error", destroyed.error()});
      }
    }
  }
}

}  // namespace atl::layers
