// The blocking Store as awaitable calls.
//
// Calls run on the one thread of `pool`, in the order they were made. Without a pool they run in
// place: that is for tests on a ManualLoop.
#pragma once

#include "io/offload.h"
#include "store/room.h"

namespace atl::control {

class StoreAccess {
 public:
  StoreAccess(store::Store& store, io::OffloadPool* pool) : store_(&store), pool_(pool) {}

  // `function` takes a Store& and returns Result<T>.
  template <class Function,
            class T = typename std::invoke_result_t<Function, store::Store&>::value_type>
  Task<T> run(Function function) const {
    if (pool_ == nullptr) {
      co_return function(*store_);
    }
    co_return co_await pool_->run(
        [store = store_, &function]() -> Result<T> { return function(*store); });
  }

 private:
  store::Store* store_;
  io::OffloadPool* pool_;
};

}  // namespace atl::control
