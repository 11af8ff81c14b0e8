// What control's tests share: a temporary directory, a manual loop that runs one task to its end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "base/scope.h"
#include "store/room.h"

namespace atl::control {

class TemporaryDirectory {
 public:
  // On a memory filesystem where there is one: the store's syncs are not what is tested here.
  TemporaryDirectory() {
    std::string name =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/atoll-XXXXXX" : "/tmp/atoll-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      name = "/tmp/atoll-XXXXXX";
      CHECK(::mkdtemp(name.data()) != nullptr);
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Loop time and wall time that move together.
class Simulation {
 public:
  ManualLoop loop;
  FakeWallClock clock{1'000'000'000'000};

  void advance_ms(std::int64_t milliseconds) {
    for (std::int64_t i = 0; i < milliseconds; ++i) {
      clock.advance_ms(1);
      loop.advance(std::chrono::milliseconds{1});
    }
    loop.run_ready();
  }

  template <class T>
  Result<T> run(Task<T> task) {
    std::optional<Result<T>> result;
    Scope scope{loop};
    scope.spawn("test", store_result(std::move(task), result));
    for (int i = 0; !result && i < 1'000'000; ++i) {
      advance_ms(1);
    }
    CHECK(result.has_value());
    return *std::move(result);
  }

  template <class T>
  static Task<> store_result(Task<T> task, std::optional<Result<T>>& result) {
    result.emplace(co_await std::move(task));
    co_return ok();
  }
};

}  // namespace atl::control
