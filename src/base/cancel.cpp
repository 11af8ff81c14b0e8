#include "base/cancel.h"

#include "base/error.h"

namespace atl {

void CancelHook::hook(CancelState& state) {
  CHECK(state_ == nullptr);
  state_ = &state;
  previous_ = nullptr;
  next_ = state.first_;
  if (next_ != nullptr) {
    next_->previous_ = this;
  }
  state.first_ = this;
}

void CancelHook::unhook() {
  if (state_ == nullptr) {
    return;
  }
  (previous_ != nullptr ? previous_->next_ : state_->first_) = next_;
  if (next_ != nullptr) {
    next_->previous_ = previous_;
  }
  state_ = nullptr;
  previous_ = next_ = nullptr;
}

CancelState::CancelState(CancelState* parent) {
  if (parent != nullptr) {
    cancelled_ = parent->cancelled();
    hook(*parent);
  }
}

CancelState::~CancelState() {
  // Whoever hooks in must be gone first: a leaf cannot outlive the state it listens to.
  CHECK(first_ == nullptr);
}

void CancelState::cancel() {
  if (cancelled_) {
    return;
  }
  cancelled_ = true;
  // A hook may resume a task that destroys other hooks, so always restart from the head.
  while (first_ != nullptr) {
    CancelHook* hook = first_;
    hook->unhook();
    hook->on_cancel();
  }
}

}  // namespace atl
