// Tells systemd (Type=notify) how far we are. Without $NOTIFY_SOCKET nothing happens.
#pragma once

#include <string>
#include <string_view>

namespace atl::daemon {

class ServiceNotifier {
 public:
  ServiceNotifier();  // takes $NOTIFY_SOCKET out of the environment, so children do not speak up
  void send(std::string_view state) const;  // "READY=1"

 private:
  std::string socket_path_;
};

}  // namespace atl::daemon
