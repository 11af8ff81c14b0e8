// The builtin templates as layers in the pool: unpacked from the cache, built when it has none.
//
// `default` and the empty layer are there before the node serves. The others are made on request,
// one at a time, on a thread of their own that publishes what happens. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "image/room.h"
#include "layers/room.h"
#include "node/protocol.h"

namespace atl::node {

class BuiltinTemplates {
 public:
  struct Parts {
    layers::Pool& pool;
    std::string cache_dir;
    std::function<void(const Event& event)> publish;  // called on the building thread
  };
  explicit BuiltinTemplates(Parts parts);
  BuiltinTemplates(const BuiltinTemplates&) = delete;
  BuiltinTemplates& operator=(const BuiltinTemplates&) = delete;

  // Makes what must be there from the start.
  Result<> seed(const image::Progress& progress);
  std::vector<TemplateInfo> list() const;
  // Begins to make one that is absent; nothing to do for the others. kNotFound for a name that is
  // none, kUnavailable while another one is being made.
  Result<> build(const std::string& name);
  // True: the thread still works, and the process may only end, not clean up the pool.
  bool busy() const;

 private:
  struct Builtin {
    image::BuiltinTemplate source;
    TemplateInfo::State state = TemplateInfo::State::kAbsent;
  };

  Result<> make(const image::BuiltinTemplate& source, const image::Progress& progress);
  void run(const image::BuiltinTemplate& source);

  const Parts parts_;
  mutable std::mutex mutex_;
  std::vector<Builtin> builtins_;
};

}  // namespace atl::node
