#include "base/task.h"

namespace atl {

bool Leaf::suspend(std::coroutine_handle<> self, TaskContext& context) {
  if (context.cancel->cancelled()) {
    outcome_ = fail(Code::kCancelled, "cancelled");
    return false;
  }
  waiter_ = self;
  loop_ = context.loop;
  hook(*context.cancel);
  starting_ = true;
  start(context);
  starting_ = false;
  return static_cast<bool>(waiter_);  // completed inside start(): do not suspend
}

void Leaf::complete(Result<> outcome) {
  unhook();
  outcome_ = std::move(outcome);
  const auto waiter = std::exchange(waiter_, {});
  CHECK(waiter);
  if (!starting_) {
    waiter.resume();
  }
}

void Leaf::complete_later(Result<> outcome) {
  unhook();
  outcome_ = std::move(outcome);
  CHECK(waiter_ && !starting_);
  // The waiting coroutine cannot go away before it is resumed, and the leaf lives in its frame.
  loop_->post([this] { std::exchange(waiter_, {}).resume(); });
}

void Leaf::on_cancel() {
  stop();
  complete_later(fail(Code::kCancelled, "cancelled"));
}

void Sleep::start(TaskContext& context) {
  loop_ = context.loop;
  timer_ = loop_->start_timer(loop_->now() + duration_, [this] { complete({}); });
}

void Event::Wait::start(TaskContext&) {
  if (event_.set_) {
    complete({});
    return;
  }
  next_ = event_.first_;
  event_.first_ = this;
}

void Event::Wait::stop() {
  for (Wait** link = &event_.first_; *link != nullptr; link = &(*link)->next_) {
    if (*link == this) {
      *link = next_;
      return;
    }
  }
}

void Event::set() {
  set_ = true;
  while (first_ != nullptr) {
    std::exchange(first_, first_->next_)->complete_later({});
  }
}

}  // namespace atl
