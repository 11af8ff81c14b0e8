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
  if (const auto destroyed = destroy(thrown); !destroyed) {
    LOG_WARN("a deleted volume keeps its space for now", {"volume", thrown},
             {"error", destroyed.error()});
    wake();
  }
  return {};
}

Result<std::vector<std::string>> Trash::empty() {
  TRY(const std::vector<std::string> names, list_names(directory_.get()));
  std::vector<std::string> done;
  for (const std::string& name : names) {
    if (volumes_.destroys_quickly()) {
      TRY_DO(destroy(name));
    }
    done.push_back(concat("goes on deleting ", name));
  }
  if (!names.empty() && !volumes_.destroys_quickly()) {
    wake();
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

// False when something is left that could not be destroyed.
bool Trash::destroy_all(const std::stop_token& stopping) {
  const auto names = list_names(directory_.get());
  bool all = names.has_value();
  for (std::size_t i = 0; names && i < names->size() && !stopping.stop_requested(); ++i) {
    if (const auto destroyed = destroy((*names)[i]); !destroyed) {
      LOG_WARN("a deleted directory keeps its space for now", {"directory", (*names)[i]},
               {"error", destroyed.error()});
      all = false;
    }
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
