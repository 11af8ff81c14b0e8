#include "service/e2b/envd/binary_codec.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/strings.h"

namespace atl::service::e2b::envd {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr unsigned kMaxVarintBytes = 10;
constexpr std::size_t kMaxItems = 100'000;  // of repeated fields and maps, together
constexpr unsigned kMaxDepth = 8;           // the tables are not deeper

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "the message is no well-formed protobuf");
}

// Sticky: after the first bad byte everything reads as nothing, and ok() says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return bytes_.empty() || !ok_; }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < kMaxVarintBytes && !bytes_.empty(); ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    ok_ = false;
    return 0;
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view block() { return take(varint()); }
  void skip(std::uint8_t type) {
    switch (type) {
      case kVarint:
        (void)varint();
        return;
      case kFixed64:
        (void)take(8);
        return;
      case kLength:
        (void)block();
        return;
      case kFixed32:
        (void)take(4);
        return;
      default:
        ok_ = false;
    }
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

class Decoder {
 public:
  Result<Json> decode(const Message& message, std::string_view bytes, unsigned depth) {
    if (depth > kMaxDepth) {
      return malformed();
    }
    Json decoded = Json::object();
    Reader in{bytes};
    while (!in.done()) {
      const std::uint64_t key = in.varint();
      const auto type = static_cast<std::uint8_t>(key & 7U);
      const auto field = std::ranges::find(message.fields, key >> 3U, &Field::number);
      if (field == message.fields.end()) {
        in.skip(type);
      } else if (type != wire_type(*field)) {
        return malformed();
      } else {
        TRY_DO(add(decoded, *field, in, depth));
      }
    }
    if (!in.ok()) {
      return malformed();
    }
    for (const Field& field : message.fields) {
      if (field.kind == FieldKind::kStringMap && decoded.find(field.name) != nullptr) {
        keep_last_of_each(*member(decoded, field, Json::object()).as_object());
      }
    }
    return decoded;
  }

 private:
  static std::uint8_t wire_type(const Field& field) {
    switch (field.kind) {
      case FieldKind::kBool:
      case FieldKind::kUint32:
      case FieldKind::kSint32:
      case FieldKind::kInt64:
      case FieldKind::kEnum:
        return kVarint;
      default:
        return kLength;
    }
  }

  Result<> add(Json& decoded, const Field& field, Reader& in, unsigned depth) {
    if ((field.repeated || field.kind == FieldKind::kStringMap) && ++items_ > kMaxItems) {
      return malformed();
    }
    if (field.kind == FieldKind::kStringMap) {
      return add_pair(member(decoded, field, Json::object()), in.block());
    }
    TRY(auto value, decode_value(field, in, depth));
    if (field.repeated) {
      member(decoded, field, Json::array()).push(std::move(value));
    } else {
      decoded.set(field.name, std::move(value));
    }
    return {};
  }

  static Json& member(Json& decoded, const Field& field, Json empty) {
    if (decoded.find(field.name) == nullptr) {
      decoded.set(field.name, std::move(empty));
    }
    return *const_cast<Json*>(decoded.find(field.name));
  }

  static Result<> add_pair(Json& map, std::string_view bytes) {
    std::string name;
    std::string value;
    Reader in{bytes};
    while (!in.done()) {
      const std::uint64_t key = in.varint();
      if (key == ((1U << 3U) | kLength)) {
        name = in.block();
      } else if (key == ((2U << 3U) | kLength)) {
        value = in.block();
      } else {
        in.skip(static_cast<std::uint8_t>(key & 7U));
      }
    }
    if (!in.ok() || !is_utf8(name) || !is_utf8(value)) {
      return malformed();
    }
    map.as_object()->emplace_back(std::move(name), std::move(value));
    return {};
  }

  // Of pairs with the same name the last one counts. Once for all of them: looking for each name
  // among those before would let one message stop the loop for seconds.
  static void keep_last_of_each(Json::Object& pairs) {
    std::map<std::string, Json> last;
    for (auto& [name, value] : pairs) {
      last.insert_or_assign(std::move(name), std::move(value));
    }
    pairs.assign(std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
  }

  Result<Json> decode_value(const Field& field, Reader& in, unsigned depth) {
    switch (field.kind) {
      case FieldKind::kString: {
        const auto text = in.block();
        return is_utf8(text) ? Result<Json>{Json{text}} : malformed();
      }
      case FieldKind::kBytes:
        return Json{in.block()};
      case FieldKind::kBool:
        return Json{in.varint() != 0};
      case FieldKind::kUint32:
        return Json{static_cast<std::uint32_t>(in.varint())};
      case FieldKind::kSint32: {
        const auto zigzag = static_cast<std::uint32_t>(in.varint());
        return Json{static_cast<std::int32_t>((zigzag >> 1U) ^ (~(zigzag & 1U) + 1U))};
      }
      case FieldKind::kInt64:
        return Json{static_cast<std::int64_t>(in.varint())};
      case FieldKind::kEnum: {
        const auto number = static_cast<std::int32_t>(in.varint());
        const auto value = std::ranges::find(field.values, number, &EnumValue::number);
        return value == field.values.end() ? Result<Json>{malformed()} : Json{value->name};
      }
      case FieldKind::kMessage:
        return decode(*field.message, in.block(), depth + 1);
      case FieldKind::kTimestamp:
      case FieldKind::kStringMap:
        break;
    }
    return malformed();  // only in answers
  }

  std::size_t items_ = 0;
};

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7FU) | 0x80U);
    value >>= 7U;
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t number, WireType type) {
  put_varint(out, (static_cast<std::uint64_t>(number) << 3U) | type);
}

void put_block(std::string& out, std::uint32_t number, std::string_view bytes) {
  put_key(out, number, kLength);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string encode_timestamp(std::int64_t time) {
  std::int64_t seconds = time / kNanosecondsPerSecond;
  std::int64_t rest = time % kNanosecondsPerSecond;
  if (rest < 0) {
    --seconds;
    rest += kNanosecondsPerSecond;
  }
  std::string out;
  put_key(out, 1, kVarint);
  put_varint(out, static_cast<std::uint64_t>(seconds));
  put_key(out, 2, kVarint);
  put_varint(out, static_cast<std::uint64_t>(rest));
  return out;
}

void put_value(std::string& out, const Field& field, const Json& value) {
  const auto number = [&](std::uint64_t bits) {
    put_key(out, field.number, kVarint);
    put_varint(out, bits);
  };
  switch (field.kind) {
    case FieldKind::kString:
    case FieldKind::kBytes:
      put_block(out, field.number, *value.as_string());
      return;
    case FieldKind::kBool:
      number(*value.as_bool() ? 1 : 0);
      return;
    case FieldKind::kUint32:
    case FieldKind::kInt64:
      number(static_cast<std::uint64_t>(*value.as_integer()));
      return;
    case FieldKind::kSint32: {
      const auto signed_value = static_cast<std::int32_t>(*value.as_integer());
      number((static_cast<std::uint32_t>(signed_value) << 1U) ^
             static_cast<std::uint32_t>(signed_value >> 31));
      return;
    }
    case FieldKind::kEnum: {
      const auto found = std::ranges::find(field.values, *value.as_string(), &EnumValue::name);
      number(found == field.values.end() ? 0 : static_cast<std::uint64_t>(found->number));
      return;
    }
    case FieldKind::kMessage:
      put_block(out, field.number, encode_binary(*field.message, value));
      return;
    case FieldKind::kStringMap:
      for (const auto& [name, each] : *value.as_object()) {
        std::string pair;
        put_block(pair, 1, name);
        put_block(pair, 2, *each.as_string());
        put_block(out, field.number, pair);
      }
      return;
    case FieldKind::kTimestamp:
      put_block(out, field.number, encode_timestamp(*value.as_integer()));
      return;
  }
}

}  // namespace

Result<Json> decode_binary(const Message& message, std::string_view bytes) {
  return Decoder{}.decode(message, bytes, 0);
}

std::string binary_block(std::uint32_t number, std::string_view bytes) {
  std::string out;
  put_block(out, number, bytes);
  return out;
}

std::string encode_binary(const Message& message, const Json& value) {
  std::string out;
  for (const Field& field : message.fields) {
    const Json* member = value.find(field.name);
    if (member == nullptr) {
      continue;
    }
    if (!field.repeated) {
      put_value(out, field, *member);
      continue;
    }
    for (const Json& each : *member->as_array()) {
      put_value(out, field, each);
    }
  }
  return out;
}

}  // namespace atl::service::e2b::envd
