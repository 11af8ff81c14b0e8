#include "runtime/namespaces/protobuf_wire.h"

namespace atl::runtime::namespaces {
namespace {

using Type = ProtobufField::Type;

void append_number(std::string& out, std::uint64_t value) {
  while (value > 0x7f) {
    out.push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::unexpected<Error> malformed() {
  return fail(Code::kDataLoss, "a message of criu is malformed");
}

Result<std::uint64_t> take_number(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) {
      return malformed();
    }
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  return malformed();
}

Result<std::string> take_bytes(std::string_view& bytes, std::uint64_t size) {
  if (size > bytes.size()) {
    return malformed();
  }
  std::string taken{bytes.substr(0, size)};
  bytes.remove_prefix(size);
  return taken;
}

}  // namespace

Result<std::vector<ProtobufField>> parse_protobuf(std::string_view bytes) {
  std::vector<ProtobufField> fields;
  while (!bytes.empty()) {
    TRY(const std::uint64_t key, take_number(bytes));
    ProtobufField field{.number = static_cast<std::uint32_t>(key >> 3),
                        .type = static_cast<Type>(key & 7)};
    switch (field.type) {
      case Type::kNumber: {
        TRY(field.value, take_number(bytes));
        break;
      }
      case Type::kBytes: {
        TRY(const std::uint64_t size, take_number(bytes));
        TRY(field.bytes, take_bytes(bytes, size));
        break;
      }
      case Type::kFixed64: {
        TRY(field.bytes, take_bytes(bytes, 8));
        break;
      }
      case Type::kFixed32: {
        TRY(field.bytes, take_bytes(bytes, 4));
        break;
      }
      default:
        return malformed();
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string format_protobuf(const std::vector<ProtobufField>& fields) {
  std::string out;
  for (const ProtobufField& field : fields) {
    append_number(out, std::uint64_t{field.number} << 3 | static_cast<std::uint64_t>(field.type));
    if (field.type == Type::kNumber) {
      append_number(out, field.value);
      continue;
    }
    if (field.type == Type::kBytes) {
      append_number(out, field.bytes.size());
    }
    out += field.bytes;
  }
  return out;
}

ProtobufWriter& ProtobufWriter::number(std::uint32_t field, std::uint64_t value) {
  append_number(bytes_, std::uint64_t{field} << 3);
  append_number(bytes_, value);
  return *this;
}

ProtobufWriter& ProtobufWriter::text(std::uint32_t field, std::string_view value) {
  append_number(bytes_, std::uint64_t{field} << 3 | 2);
  append_number(bytes_, value.size());
  bytes_ += value;
  return *this;
}

}  // namespace atl::runtime::namespaces
