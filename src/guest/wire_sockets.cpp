// Sockets in the guest protocol: who holds one.
#include "base/bytes.h"
#include "guest/wire.h"

namespace atl::guest {

std::string encode(const FindSocketRequest& request) {
  return ByteWriter{}.boolean(request.datagrams).u32(request.port).bytes();
}

Result<FindSocketRequest> decode_find_socket(std::string_view payload) {
  ByteReader in{payload};
  FindSocketRequest request;
  request.datagrams = in.boolean();
  const std::uint32_t port = in.u32();
  TRY_DO(in.finish());
  if (port == 0 || port > 65535) {
    return fail(Code::kInvalidArgument, "a port is 1 to 65535", "bad_port");
  }
  request.port = static_cast<std::uint16_t>(port);
  return request;
}

std::string encode(const SocketHolder& holder) {
  ByteWriter out;
  out.u32(holder.pid).string(std::string_view{holder.program}.substr(0, kMaxProgramBytes));
  out.string(holder.process_id);
  return std::move(out).bytes();
}

Result<SocketHolder> decode_socket_holder(std::string_view payload) {
  ByteReader in{payload};
  SocketHolder holder;
  holder.pid = in.u32();
  holder.program = in.string();
  holder.process_id = in.string();
  TRY_DO(in.finish());
  if (holder.program.size() > kMaxProgramBytes) {
    return fail(Code::kInvalidArgument, "the name of a program is too long", "malformed");
  }
  if (!holder.process_id.empty()) {
    TRY_DO(validate_process_id(holder.process_id));
  }
  return holder;
}

}  // namespace atl::guest
