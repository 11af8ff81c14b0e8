// The answers and events of the node protocol; the requests are in protocol.cpp.
#include "base/bytes.h"
#include "node/protocol.h"

namespace atl::node {
namespace {

constexpr std::size_t kMaxErrorTextBytes = std::size_t{8} * 1024;
constexpr std::uint32_t kLeastCellBytes = 4 + 1 + 1 + 4 + 1 + 1 + 4;
constexpr std::uint32_t kLeastTemplateBytes = 4 + 1 + 4;

void write_cell(ByteWriter& out, const CellInfo& info) {
  out.string(info.id).boolean(info.running).boolean(info.frozen).string(info.guest_socket);
  out.boolean(info.dumped).boolean(info.restored);
  out.string(std::string_view{info.reason}.substr(0, kMaxErrorTextBytes));
}

CellInfo read_cell(ByteReader& in) {
  CellInfo info;
  info.id = in.string();
  info.running = in.boolean();
  info.frozen = in.boolean();
  info.guest_socket = in.string();
  info.dumped = in.boolean();
  info.restored = in.boolean();
  info.reason = in.string();
  return info;
}

}  // namespace

std::string encode_ok(std::string_view payload) {
  std::string out(1, '\0');
  out += payload;
  return out;
}

std::string encode_error(const Error& error) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(error.code));
  out.string(std::string_view{error.message}.substr(0, kMaxErrorTextBytes));
  out.string(std::string_view{error.reason}.substr(0, kMaxErrorTextBytes));
  return std::move(out).bytes();
}

Result<std::string> decode_answer(std::string_view datagram) {
  ByteReader in{datagram};
  const std::uint8_t status = in.u8();
  if (in.ok() && status == 0) {
    return std::string{datagram.substr(1)};
  }
  Error error{code_from_number(status), {}, {}};
  error.message = in.string();
  error.reason = in.string();
  TRY_DO(in.finish());
  return fail(std::move(error));
}

std::string encode_payload(const CellInfo& info) {
  ByteWriter out;
  write_cell(out, info);
  return std::move(out).bytes();
}

std::string encode_payload(const std::vector<CellInfo>& infos) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(infos.size()));
  for (const CellInfo& info : infos) {
    write_cell(out, info);
  }
  return std::move(out).bytes();
}

std::string encode_payload(const Usage& usage) {
  ByteWriter out;
  out.u64(usage.memory_bytes)
      .u64(usage.memory_total_bytes)
      .u64(usage.memory_peak_bytes)
      .u64(usage.cpu_nanoseconds)
      .u32(usage.process_count)
      .u64(usage.disk_bytes);
  return std::move(out).bytes();
}

std::string encode_payload(const SnapshotAnswer& answer) {
  ByteWriter out;
  out.u64(answer.stopped_nanoseconds);
  return std::move(out).bytes();
}

std::string encode_payload(const DumpAnswer& answer) {
  ByteWriter out;
  out.u64(answer.bytes);
  return std::move(out).bytes();
}

std::string encode_payload(const HelloAnswer& hello) {
  ByteWriter out;
  out.string(hello.version).string(hello.runtime);
  out.boolean(hello.kernel_boundary).boolean(hello.memory_dump).boolean(hello.live_fork);
  out.string(std::string_view{hello.memory_dump_reason}.substr(0, kMaxErrorTextBytes));
  out.boolean(hello.freeze).boolean(hello.disk_quota).string(hello.storage_backend);
  out.boolean(hello.egress).boolean(hello.egress_ipv6);
  out.string(std::string_view{hello.egress_reason}.substr(0, kMaxErrorTextBytes));
  out.u64(hello.pool_total_bytes);
  out.u32(static_cast<std::uint32_t>(hello.templates.size()));
  for (const TemplateInfo& info : hello.templates) {
    out.string(info.name).u8(static_cast<std::uint8_t>(info.state)).strings(info.layers);
  }
  return std::move(out).bytes();
}

std::string encode_event(const Event& event) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(event.kind)).string(event.id);
  out.string(std::string_view{event.text}.substr(0, kMaxErrorTextBytes));
  return std::move(out).bytes();
}

Result<CellInfo> decode_cell(std::string_view payload) {
  ByteReader in{payload};
  CellInfo info = read_cell(in);
  TRY_DO(in.finish());
  return info;
}

Result<std::vector<CellInfo>> decode_cells(std::string_view payload) {
  ByteReader in{payload};
  std::vector<CellInfo> infos(in.count(kLeastCellBytes));
  for (CellInfo& info : infos) {
    info = read_cell(in);
  }
  TRY_DO(in.finish());
  return infos;
}

Result<Usage> decode_usage(std::string_view payload) {
  ByteReader in{payload};
  Usage usage;
  usage.memory_bytes = in.u64();
  usage.memory_total_bytes = in.u64();
  usage.memory_peak_bytes = in.u64();
  usage.cpu_nanoseconds = in.u64();
  usage.process_count = in.u32();
  usage.disk_bytes = in.u64();
  TRY_DO(in.finish());
  return usage;
}

Result<SnapshotAnswer> decode_snapshot(std::string_view payload) {
  ByteReader in{payload};
  SnapshotAnswer answer;
  answer.stopped_nanoseconds = in.u64();
  TRY_DO(in.finish());
  return answer;
}

Result<DumpAnswer> decode_dump(std::string_view payload) {
  ByteReader in{payload};
  DumpAnswer answer;
  answer.bytes = in.u64();
  TRY_DO(in.finish());
  return answer;
}

Result<HelloAnswer> decode_hello(std::string_view payload) {
  ByteReader in{payload};
  HelloAnswer hello;
  hello.version = in.string();
  hello.runtime = in.string();
  hello.kernel_boundary = in.boolean();
  hello.memory_dump = in.boolean();
  hello.live_fork = in.boolean();
  hello.memory_dump_reason = in.string();
  hello.freeze = in.boolean();
  hello.disk_quota = in.boolean();
  hello.storage_backend = in.string();
  hello.egress = in.boolean();
  hello.egress_ipv6 = in.boolean();
  hello.egress_reason = in.string();
  hello.pool_total_bytes = in.u64();
  hello.templates.resize(in.count(kLeastTemplateBytes));
  for (TemplateInfo& info : hello.templates) {
    info.name = in.string();
    info.state = static_cast<TemplateInfo::State>(in.u8());
    info.layers = in.strings();
  }
  TRY_DO(in.finish());
  return hello;
}

std::string encode_payload(const std::vector<std::string>& names) {
  ByteWriter out;
  out.strings(names);
  return std::move(out).bytes();
}

Result<std::vector<std::string>> decode_names(std::string_view payload) {
  ByteReader in{payload};
  std::vector<std::string> names = in.strings();
  TRY_DO(in.finish());
  return names;
}

Result<Event> decode_event(std::string_view datagram) {
  ByteReader in{datagram};
  Event event;
  event.kind = static_cast<Event::Kind>(in.u8());
  event.id = in.string();
  event.text = in.string();
  TRY_DO(in.finish());
  if (event.kind < Event::Kind::kCellDied || event.kind > Event::Kind::kTemplateFailed) {
    return fail(Code::kInvalidArgument, "the node sent an unknown event", "malformed");
  }
  return event;
}

}  // namespace atl::node
