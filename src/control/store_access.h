// The blocking Store as awaitable calls.
//
// Calls run on the one thread of a StoreThread, in the order they were made. Those that wait when
// the thread comes to them are done together, with one commit; none of them is answered before it.
// What must be durable waits for the disk in addition, on a second thread and once for all that
// came together; nobody else does. Without a thread calls run in place: that is for tests on a
// ManualLoop.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/scope.h"
#include "base/task.h"
#include "store/room.h"

namespace atl::control {

class StoreThread {
 public:
  StoreThread(store::Store& store, std::size_t max_queued);
  ~StoreThread();  // finishes what is queued, joins
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  // One call. It cannot be cancelled: run it under a context that never is.
  class Call final : public Leaf {
   public:
    Call(StoreThread& thread, std::function<void()> run) : thread_(thread), run_(std::move(run)) {}

   private:
    friend class StoreThread;
    void start(TaskContext& context) override;
    void stop() override {}
    void finish();

    StoreThread& thread_;
    std::function<void()> run_;
    Loop* loop_ = nullptr;
    Result<> outcome_;  // of the commit it was part of
  };

  struct Counts {
    std::uint64_t calls = 0;
    std::uint64_t groups = 0;  // a call that was alone is one too
  };
  Counts counts();

 private:
  bool enqueue(Call& call);
  void work();
  void run_together(const std::vector<Call*>& calls);
  void sync_committed();

  store::Store& store_;
  const std::size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Call*> queue_;
  Counts counts_;
  bool stopping_ = false;
  std::condition_variable committed_wake_;
  std::vector<Call*> committed_;  // and not yet durable
  bool ended_ = false;            // nothing more is committed
  std::jthread syncer_;
  std::jthread thread_;
};

class StoreAccess {
 public:
  StoreAccess(store::Store& store, StoreThread* thread) : store_(&store), thread_(thread) {}

  // `function` takes a Store& and returns Result<T>.
  template <class Function,
            class T = typename std::invoke_result_t<Function, store::Store&>::value_type>
  Task<T> run(Function function) const {
    if (thread_ == nullptr) {
      co_return function(*store_);
    }
    TaskContext& outer = co_await current_context();
    CancelState never;
    TaskContext inner{outer.loop, &never, outer.trace};
    std::optional<Result<T>> result;
    StoreThread::Call call{
        *thread_, [store = store_, &result, &function] { result.emplace(function(*store)); }};
    CO_TRY_DO(co_await finish(call).under(inner));
    co_return *std::move(result);
  }

 private:
  static Task<> finish(StoreThread::Call& call) { co_return co_await call; }

  store::Store* store_;
  StoreThread* thread_;
};

}  // namespace atl::control
