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

Trash::Trash(Fd directory, Volumes& volumes)
    : directory_(std::move(directory)),
      volumes_(volumes),
      thread_([this](const std::stop_token& stopping) { run(stopping); }) {}

void Trash::wake() {
  const std::scoped_lock guard{mutex_};
  has_work_ = true;
  changed_.notify_one();
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
  if (!volumes_.destroys_quickly()) {
    wake();
    return {};
  }
  // It is gone for everybody; a failure here only delays the space.
  if (!destroy_or_log(thrown)) {
    wake();
  }
  return {};
}

std::vector<std::string> Trash::empty() {
  std::vector<std::string> done;
  const auto names = list_names(directory_.get());
  if (!names) {
    LOG_WARN("the pool's trash cannot be read", {"error", names.error()});
    wake();
    return done;
  }
  bool all_gone = volumes_.destroys_quickly() || names->empty();
  for (const std::string& name : *names) {
    if (volumes_.destroys_quickly()) {
      all_gone = destroy_or_log(name) && all_gone;
    }
    done.push_back(concat("goes on deleting ", name));
  }
  if (!all_gone) {
    wake();
  }
  return done;
}

bool Trash::destroy_or_log(const std::string& name) {
  const auto destroyed = destroy(name);
  if (!destroyed) {
    LOG_WARN("something deleted keeps its space for now", {"name", name},
             {"error", destroyed.error()});
  }
  return destroyed.has_value();
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

// False when something is left that could not be destroyed.
bool Trash::destroy_all(const std::stop_token& stopping) {
  const auto names = list_names(directory_.get());
  bool all = names.has_value();
  for (std::size_t i = 0; names && i < names->size() && !stopping.stop_requested(); ++i) {
    all = destroy_or_log((*names)[i]) && all;
  }
  return all;
}

void Trash::run(const std::stop_token& stopping) {
  for (bool all_gone = true;;) {
    {
      std::unique_lock lock{mutex_};
      const auto has_work = [this] { return has_work_; };
      if (all_gone) {
        (void)changed_.wait(lock, stopping, has_work);
      } else {
        (void)changed_.wait_for(lock, stopping, kRetryInterval, has_work);
      }
      if (stopping.stop_requested()) {
        return;
      }
      has_work_ = false;
    }
    all_gone = destroy_all(stopping);
  }
}

}  // namespace atl::layers
