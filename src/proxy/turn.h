// A turn of the loop given away: what is ready goes first. Costs no timer.
#pragma once

#include <memory>

#include "base/task.h"

namespace atl::proxy {

class Turn final : public Leaf {
 private:
  void start(TaskContext& context) override {
    token_ = std::make_shared<Turn*>(this);
    context.loop->post([token = token_] {
      if (*token != nullptr) {
        (*token)->complete({});
      }
    });
  }
  void stop() override { *token_ = nullptr; }

  std::shared_ptr<Turn*> token_;  // shared with the posted callback
};

}  // namespace atl::proxy
