// Cancellation as a value.
//
// A CancelState says whether a group of tasks has been cancelled. A suspended leaf (a timer, a
// socket wait) registers a CancelHook; cancelling runs the hooks, each leaf wakes up and returns
// Error{kCancelled}, and the code unwinds through ordinary CO_TRY. States form a tree: cancelling
// a parent cancels its children. Loop thread only.
#pragma once

namespace atl {

class CancelState;

class CancelHook {
 public:
  CancelHook() = default;
  CancelHook(const CancelHook&) = delete;
  CancelHook& operator=(const CancelHook&) = delete;
  virtual void on_cancel() = 0;

 protected:
  ~CancelHook() { unhook(); }
  void hook(CancelState& state);
  void unhook();

 private:
  friend class CancelState;
  CancelState* state_ = nullptr;
  CancelHook* previous_ = nullptr;
  CancelHook* next_ = nullptr;
};

class CancelState final : private CancelHook {
 public:
  // With a parent: cancelled when the parent is (also when it already was).
  explicit CancelState(CancelState* parent = nullptr);
  ~CancelState();

  bool cancelled() const { return cancelled_; }
  void cancel();

 private:
  friend class CancelHook;
  void on_cancel() override { cancel(); }

  bool cancelled_ = false;
  CancelHook* first_ = nullptr;
};

}  // namespace atl
