#include "control/store_access.h"

#include <pthread.h>

#include <algorithm>

namespace atl::control {
namespace {

// More would let the first of them wait for long.
constexpr std::size_t kMaxGroupCalls = 64;

}  // namespace

StoreThread::StoreThread(store::Store& store, std::size_t max_queued)
    : store_(store),
      max_queued_(max_queued),
      syncer_([this] { sync_committed(); }),
      thread_([this] { work(); }) {
  ::pthread_setname_np(thread_.native_handle(), "store");
  ::pthread_setname_np(syncer_.native_handle(), "store sync");
}

StoreThread::~StoreThread() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  {
    const std::lock_guard lock{mutex_};
    ended_ = true;
  }
  committed_wake_.notify_one();
}

StoreThread::Counts StoreThread::counts() {
  const std::lock_guard lock{mutex_};
  return counts_;
}

bool StoreThread::enqueue(Call& call) {
  {
    const std::lock_guard lock{mutex_};
    if (queue_.size() >= max_queued_) {
      return false;
    }
    queue_.push_back(&call);
  }
  wake_.notify_one();
  return true;
}

void StoreThread::Call::start(TaskContext& context) {
  loop_ = context.loop;
  if (!thread_.enqueue(*this)) {
    complete(fail(Code::kResourceExhausted, "too much work is waiting; try again later", "busy"));
  }
}

// The call may be gone as soon as the loop has it.
void StoreThread::Call::finish() {
  loop_->post([this] { complete(std::move(outcome_)); });
}

void StoreThread::work() {
  std::vector<Call*> calls;
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), kMaxGroupCalls));
      calls.assign(queue_.begin(), queue_.begin() + count);
      queue_.erase(queue_.begin(), queue_.begin() + count);
      counts_.calls += calls.size();
      ++counts_.groups;
    }
    run_together(calls);
  }
}

void StoreThread::run_together(const std::vector<Call*>& calls) {
  std::vector<store::StorePart> parts;
  parts.reserve(calls.size());
  for (Call* call : calls) {
    parts.push_back({.run = [call] { call->run_(); }});
  }
  auto committed = store_.together(parts);
  // One that finds no room takes all with it. Nothing of them has happened: each gets what it would
  // have got alone.
  const bool each_alone = !committed && calls.size() > 1;
  std::vector<Call*> durable;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (each_alone) {
      committed = store_.together(std::span{parts}.subspan(i, 1));
    }
    if (committed && parts[i].durable) {
      durable.push_back(calls[i]);
      continue;
    }
    calls[i]->outcome_ = committed;
    calls[i]->finish();
  }
  if (durable.empty()) {
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    committed_.insert(committed_.end(), durable.begin(), durable.end());
  }
  committed_wake_.notify_one();
}

// What is committed while a sync is under way is not covered by it and waits for the next.
void StoreThread::sync_committed() {
  std::vector<Call*> calls;
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      committed_wake_.wait(lock, [this] { return ended_ || !committed_.empty(); });
      if (committed_.empty()) {
        return;
      }
      calls.clear();
      calls.swap(committed_);
    }
    const auto synced = store_.sync();
    for (Call* call : calls) {
      call->outcome_ = synced;
      call->finish();
    }
  }
}

}  // namespace atl::control
