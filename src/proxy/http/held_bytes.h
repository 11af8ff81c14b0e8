// Bytes of bodies that are held in memory to be seen whole, under one limit for each sandbox and
// one for all: a sandbox that fills its own takes nothing from the others.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/error.h"

namespace atl::proxy::http {

class HeldBytes {
 public:
  // What one body holds of it.
  class Share {
   public:
    Share(HeldBytes& all, std::string sandbox_id)
        : all_(&all), sandbox_id_(std::move(sandbox_id)) {}
    Share(Share&& other) noexcept
        : all_(other.all_),
          sandbox_id_(std::move(other.sandbox_id_)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() { (void)hold(0); }
    // From now on this many. kResourceExhausted when that is more than before and too much.
    Result<> hold(std::size_t bytes);

   private:
    HeldBytes* all_;
    std::string sandbox_id_;
    std::size_t bytes_ = 0;
  };

 private:
  std::size_t held_ = 0;
  std::map<std::string, std::size_t> by_sandbox_;  // those that hold some
};

}  // namespace atl::proxy::http
