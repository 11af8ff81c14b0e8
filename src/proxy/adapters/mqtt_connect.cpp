#include "proxy/adapters/mqtt_connect.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::uint8_t kConnectByte = 0x10;
constexpr std::uint8_t kLevel5 = 5;
constexpr std::uint8_t kReservedFlag = 0x01;
constexpr std::uint8_t kWillFlag = 0x04;
constexpr std::uint8_t kWillQos = 0x18;
constexpr std::uint8_t kWillRetain = 0x20;
constexpr std::uint8_t kPasswordFlag = 0x40;
constexpr std::uint8_t kUsernameFlag = 0x80;
constexpr std::uint8_t kAuthenticationMethod = 0x15;

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "this is not a CONNECT of MQTT");
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string_view take(std::size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::uint8_t u8() {
    const auto taken = take(1);
    return taken.empty() ? 0 : static_cast<std::uint8_t>(taken.front());
  }
  std::size_t u16() {
    const std::size_t high = u8();
    return high << 8U | u8();
  }
  std::string_view string() { return take(u16()); }
  // At most four bytes, seven bits each, the lowest first.
  std::size_t variable() {
    std::size_t value = 0;
    for (unsigned shift = 0; shift <= 21; shift += 7) {
      const std::uint8_t byte = u8();
      value |= static_cast<std::size_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    ok_ = false;
    return 0;
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void put_u16(std::string& out, std::size_t value) {
  out.push_back(static_cast<char>(value >> 8U));
  out.push_back(static_cast<char>(value));
}

void put_string(std::string& out, std::string_view text) {
  put_u16(out, text.size());
  out += text;
}

std::string with_header(std::string_view body) {
  std::string out(1, static_cast<char>(kConnectByte));
  std::size_t size = body.size();
  do {
    const std::size_t low = size & 0x7FU;
    size >>= 7U;
    out.push_back(static_cast<char>(low | (size > 0 ? 0x80U : 0U)));
  } while (size > 0);
  out += body;
  return out;
}

// Skips one property; false when it is none that a CONNECT or a will may have.
bool skip_property(Reader& in, std::uint8_t id) {
  switch (id) {
    case 0x01:  // payload format
    case 0x17:  // request problem information
    case 0x19:  // request response information
      (void)in.u8();
      return true;
    case 0x21:  // receive maximum
    case 0x22:  // topic alias maximum
      (void)in.u16();
      return true;
    case 0x02:  // message expiry
    case 0x11:  // session expiry
    case 0x18:  // will delay
    case 0x27:  // maximum packet size
      (void)in.take(4);
      return true;
    case 0x03:  // content type
    case 0x08:  // response topic
    case 0x09:  // correlation data
      (void)in.string();
      return true;
    case 0x26:  // user property
      (void)in.string();
      (void)in.string();
      return true;
    default:
      return false;
  }
}

Result<> check_properties(std::string_view properties) {
  Reader in{properties};
  while (!in.rest().empty()) {
    const std::uint8_t id = in.u8();
    if (id == kAuthenticationMethod) {
      return fail(Code::kInvalidArgument,
                  "the client brings an authentication of its own, which a stored credential "
                  "cannot replace");
    }
    if (!skip_property(in, id) || !in.ok()) {
      return malformed();
    }
  }
  return {};
}

// Length and bytes of properties, as they stand.
Result<std::string_view> properties(Reader& in) {
  const std::string_view before = in.rest();
  const std::size_t size = in.variable();
  const auto content = in.take(size);
  if (!in.ok()) {
    return malformed();
  }
  TRY_DO(check_properties(content));
  return before.substr(0, before.size() - in.rest().size());
}

bool known_protocol(std::string_view name, std::uint8_t level) {
  return (name == "MQTT" && (level == 4 || level == kLevel5)) || (name == "MQIsdp" && level == 3);
}

Result<std::string> rewrite_body(std::string_view body, std::string_view username,
                                 std::string_view password, std::uint8_t& level) {
  Reader in{body};
  const auto name = in.string();
  level = in.u8();
  const std::uint8_t flags = in.u8();
  const std::size_t keep_alive = in.u16();
  const bool will = (flags & kWillFlag) != 0;
  if (!in.ok() || !known_protocol(name, level) || (flags & kReservedFlag) != 0 ||
      (!will && (flags & (kWillQos | kWillRetain)) != 0) || (flags & kWillQos) == kWillQos) {
    return malformed();
  }
  std::string out;
  put_string(out, name);
  out.push_back(static_cast<char>(level));
  const auto kept = static_cast<std::uint8_t>(flags & ~(kUsernameFlag | kPasswordFlag));
  out.push_back(static_cast<char>(kept | kUsernameFlag | (password.empty() ? 0 : kPasswordFlag)));
  put_u16(out, keep_alive);
  if (level == kLevel5) {
    TRY(const auto copied, properties(in));
    out += copied;
  }
  put_string(out, in.string());  // client id
  if (will) {
    if (level == kLevel5) {
      TRY(const auto copied, properties(in));
      out += copied;
    }
    put_string(out, in.string());  // topic
    put_string(out, in.string());  // payload
  }
  if ((flags & kUsernameFlag) != 0) {
    (void)in.string();
  }
  if ((flags & kPasswordFlag) != 0) {
    (void)in.string();
  }
  if (!in.finished()) {
    return malformed();
  }
  put_string(out, username);
  if (!password.empty()) {
    put_string(out, password);
  }
  return out;
}

}  // namespace

Result<std::optional<MqttConnect>> rewrite_mqtt_connect(std::string_view bytes,
                                                        std::string_view username,
                                                        std::string_view password) {
  if (username.size() > UINT16_MAX || password.size() > UINT16_MAX) {
    return fail(Code::kFailedPrecondition, "the stored credential is too long for MQTT");
  }
  constexpr std::size_t kMaxHeaderBytes = 5;
  Reader in{bytes};
  if (!bytes.empty() && in.u8() != kConnectByte) {
    return malformed();
  }
  const std::size_t size = in.variable();
  if (!in.ok()) {
    if (bytes.size() >= kMaxHeaderBytes) {
      return malformed();
    }
    return std::nullopt;
  }
  if (size > kMaxMqttConnectBytes - kMaxHeaderBytes) {
    return fail(Code::kInvalidArgument, "the CONNECT of MQTT is too long");
  }
  const auto body = in.take(size);
  if (!in.ok()) {
    return std::nullopt;
  }
  MqttConnect connect{.consumed = bytes.size() - in.rest().size()};
  TRY(const std::string rewritten, rewrite_body(body, username, password, connect.level));
  connect.packet = with_header(rewritten);
  return connect;
}

std::string mqtt_refusal(std::uint8_t level) {
  using namespace std::string_literals;
  return level == kLevel5 ? "\x20\x03\x00\x87\x00"s : "\x20\x02\x00\x05"s;
}

}  // namespace atl::proxy::adapters
