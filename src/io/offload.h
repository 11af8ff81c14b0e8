// Blocking work on a bounded pool: co_await pool.run([...] { return blocking_call(); });
//
// The function runs on a pool thread and must not touch loop-owned state. It cannot be cancelled:
// the awaiting task waits for it even when cancelled, so what it captured by reference stays valid.
// A full queue is refused with kResourceExhausted instead of growing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/scope.h"
#include "base/task.h"

namespace atl::io {

class OffloadPool {
 public:
  OffloadPool(const char* name, std::size_t threads, std::size_t max_queued);
  ~OffloadPool();  // finishes queued work, joins
  OffloadPool(const OffloadPool&) = delete;
  OffloadPool& operator=(const OffloadPool&) = delete;

  // `function` returns Result<T>.
  template <class Function, class T = typename std::invoke_result_t<Function>::value_type>
  Task<T> run(Function function) {
    TaskContext& outer = co_await current_context();
    CancelState never;
    TaskContext inner{outer.loop, &never, outer.trace};
    std::optional<Result<T>> result;
    Work work{*this, [&result, &function] { result.emplace(function()); }};
    CO_TRY_DO(co_await await_work(work).under(inner));
    co_return *std::move(result);
  }

 private:
  using Job = std::move_only_function<void()>;

  class Work final : public Leaf {
   public:
    Work(OffloadPool& pool, Job job) : pool_(pool), job_(std::move(job)) {}

   private:
    void start(TaskContext& context) override;
    void stop() override {}
    OffloadPool& pool_;
    Job job_;
  };

  static Task<> await_work(Work& work) { co_return co_await work; }
  bool enqueue(Job job);
  void work_loop();

  const std::size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace atl::io
