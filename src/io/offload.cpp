#include "io/offload.h"

#include <pthread.h>

namespace atl::io {

OffloadPool::OffloadPool(const char* name, std::size_t threads, std::size_t max_queued)
    : max_queued_(max_queued) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work_loop(); });
    ::pthread_setname_np(threads_.back().native_handle(), name);
  }
}

OffloadPool::~OffloadPool() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
}

bool OffloadPool::enqueue(Job job) {
  {
    const std::lock_guard lock{mutex_};
    if (queue_.size() >= max_queued_) {
      return false;
    }
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

void OffloadPool::work_loop() {
  for (;;) {
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job();
  }
}

void OffloadPool::Work::start(TaskContext& context) {
  const bool queued = pool_.enqueue([this, loop = context.loop] {
    job_();
    loop->post([this] { complete({}); });
  });
  if (!queued) {
    complete(fail(Code::kResourceExhausted, "too much work is waiting; try again later", "busy"));
  }
}

}  // namespace atl::io
