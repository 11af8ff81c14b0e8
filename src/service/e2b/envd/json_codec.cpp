#include "service/e2b/envd/json_codec.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/strings.h"

namespace atl::service::e2b::envd {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

std::unexpected<Error> wrong(const Field& field, std::string_view must_be) {
  return fail(Code::kInvalidArgument, concat("field \"", field.name, "\" must be ", must_be));
}

// "symlinkTarget" is also "symlink_target".
bool is_named(std::string_view given, std::string_view name) {
  if (given == name) {
    return true;
  }
  std::size_t at = 0;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      if (given.substr(at, 2) != std::string{'_', static_cast<char>(c - 'A' + 'a')}) {
        return false;
      }
      at += 2;
    } else if (at >= given.size() || given[at++] != c) {
      return false;
    }
  }
  return at == given.size();
}

Result<std::string> decode_bytes(const Field& field, std::string text) {
  for (char& c : text) {
    c = c == '-' ? '+' : c == '_' ? '/' : c;
  }
  while (text.size() % 4 != 0 && text.size() % 4 != 1) {
    text += '=';
  }
  auto bytes = base64_decode(text);
  if (!bytes) {
    return wrong(field, "base64");
  }
  return *std::move(bytes);
}

Result<std::int64_t> decode_integer(const Field& field, const Json& value) {
  std::optional<std::int64_t> number;
  if (const auto* integer = value.as_integer()) {
    number = *integer;
  } else if (const auto* text = value.as_string()) {
    number = parse_i64(*text);
  } else if (const auto real = value.as_number();
             real && std::floor(*real) == *real && std::abs(*real) < 9e15) {
    number = static_cast<std::int64_t>(*real);
  }
  if (!number) {
    return wrong(field, "an integer");
  }
  const bool fits =
      field.kind == FieldKind::kInt64 ||
      (field.kind == FieldKind::kUint32 && *number >= 0 && *number <= UINT32_MAX) ||
      (field.kind == FieldKind::kSint32 && *number >= INT32_MIN && *number <= INT32_MAX);
  return fits ? Result<std::int64_t>{*number} : wrong(field, "an integer in range");
}

Result<Json> decode_enum(const Field& field, const Json& value) {
  for (const EnumValue& each : field.values) {
    const bool same = value.as_string() != nullptr
                          ? *value.as_string() == each.name
                          : value.as_integer() != nullptr && *value.as_integer() == each.number;
    if (same) {
      return Json{each.name};
    }
  }
  return wrong(field, "a value that it can have");
}

Result<Json> decode_map(const Field& field, const Json& value) {
  const auto* members = value.as_object();
  if (members == nullptr) {
    return wrong(field, "an object of strings");
  }
  for (const auto& [name, each] : *members) {
    if (each.as_string() == nullptr) {
      return wrong(field, "an object of strings");
    }
  }
  return value;
}

Result<Json> decode_value(const Field& field, const Json& value) {
  switch (field.kind) {
    case FieldKind::kString:
      return value.as_string() != nullptr ? Result<Json>{value} : wrong(field, "a string");
    case FieldKind::kBytes: {
      if (value.as_string() == nullptr) {
        return wrong(field, "base64");
      }
      TRY(auto bytes, decode_bytes(field, *value.as_string()));
      return Json{std::move(bytes)};
    }
    case FieldKind::kBool:
      return value.as_bool() != nullptr ? Result<Json>{value} : wrong(field, "true or false");
    case FieldKind::kUint32:
    case FieldKind::kSint32:
    case FieldKind::kInt64: {
      TRY(const auto number, decode_integer(field, value));
      return Json{number};
    }
    case FieldKind::kEnum:
      return decode_enum(field, value);
    case FieldKind::kMessage:
      return from_proto_json(*field.message, value);
    case FieldKind::kStringMap:
      return decode_map(field, value);
    case FieldKind::kTimestamp:
      break;  // only in answers
  }
  return wrong(field, "absent");
}

Result<Json> decode_field(const Field& field, const Json& value) {
  if (!field.repeated) {
    return decode_value(field, value);
  }
  if (value.as_array() == nullptr) {
    return wrong(field, "an array");
  }
  Json list = Json::array();
  for (const Json& each : *value.as_array()) {
    TRY(auto item, decode_value(field, each));
    list.push(std::move(item));
  }
  return list;
}

void append_map(std::string& out, const Json& value) {
  out += '{';
  const char* separator = "";
  for (const auto& [name, each] : *value.as_object()) {
    out += separator;
    append_json_string(out, name);
    out += ':';
    append_json_string(out, *each.as_string());
    separator = ",";
  }
  out += '}';
}

void append_value(std::string& out, const Field& field, const Json& value) {
  switch (field.kind) {
    case FieldKind::kString:
    case FieldKind::kEnum:
      append_json_string(out, *value.as_string());
      return;
    case FieldKind::kBytes:
      out.append("\"").append(base64_encode(*value.as_string())).append("\"");
      return;
    case FieldKind::kBool:
      out += *value.as_bool() ? "true" : "false";
      return;
    case FieldKind::kUint32:
    case FieldKind::kSint32:
      out += concat(*value.as_integer());
      return;
    case FieldKind::kInt64:
      out += concat("\"", *value.as_integer(), "\"");
      return;
    case FieldKind::kMessage:
      append_proto_json(out, *field.message, value);
      return;
    case FieldKind::kStringMap:
      append_map(out, value);
      return;
    case FieldKind::kTimestamp: {
      const std::int64_t time = *value.as_integer();
      std::int64_t seconds = time / kNanosecondsPerSecond;
      std::int64_t rest = time % kNanosecondsPerSecond;
      if (rest < 0) {
        --seconds;
        rest += kNanosecondsPerSecond;
      }
      out += concat("\"", format_rfc3339(static_cast<std::time_t>(seconds), rest), "\"");
      return;
    }
  }
}

}  // namespace

Result<Json> from_proto_json(const Message& message, const Json& value) {
  if (value.as_object() == nullptr) {
    return fail(Code::kInvalidArgument, "a message must be a JSON object");
  }
  Json decoded = Json::object();
  for (const auto& [name, each] : *value.as_object()) {
    const auto field = std::ranges::find_if(
        message.fields, [&name](const Field& known) { return is_named(name, known.name); });
    if (field == message.fields.end() || each.is_null()) {
      continue;
    }
    TRY(auto member, decode_field(*field, each));
    decoded.set(field->name, std::move(member));
  }
  return decoded;
}

void append_proto_json(std::string& out, const Message& message, const Json& value) {
  out += '{';
  const char* separator = "";
  for (const Field& field : message.fields) {
    const Json* member = value.find(field.name);
    if (member == nullptr) {
      continue;
    }
    out.append(separator).append("\"").append(field.name).append("\":");
    separator = ",";
    if (!field.repeated) {
      append_value(out, field, *member);
      continue;
    }
    out += '[';
    const char* comma = "";
    for (const Json& each : *member->as_array()) {
      out += comma;
      append_value(out, field, each);
      comma = ",";
    }
    out += ']';
  }
  out += '}';
}

}  // namespace atl::service::e2b::envd
