#include "base/bytes.h"

namespace atl {
namespace {

template <class Integer>
void put(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>(value & 0xff));
    value = static_cast<Integer>(value >> 8);
  }
}

template <class Integer>
Integer load(std::string_view bytes) {
  Integer value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = static_cast<Integer>(value << 8 | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}

}  // namespace

ByteWriter& ByteWriter::u8(std::uint8_t value) {
  bytes_.push_back(static_cast<char>(value));
  return *this;
}

ByteWriter& ByteWriter::u32(std::uint32_t value) {
  put(bytes_, value);
  return *this;
}

ByteWriter& ByteWriter::u64(std::uint64_t value) {
  put(bytes_, value);
  return *this;
}

ByteWriter& ByteWriter::string(std::string_view value) {
  CHECK(value.size() <= UINT32_MAX);
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_.append(value);
  return *this;
}

ByteWriter& ByteWriter::strings(const std::vector<std::string>& values) {
  u32(static_cast<std::uint32_t>(values.size()));
  for (const auto& value : values) {
    string(value);
  }
  return *this;
}

std::string_view ByteReader::take(std::size_t size) {
  if (!ok_ || input_.size() < size) {
    ok_ = false;
    input_ = {};
    return {};
  }
  const auto bytes = input_.substr(0, size);
  input_.remove_prefix(size);
  return bytes;
}

std::uint8_t ByteReader::u8() {
  return load<std::uint8_t>(take(1));
}
std::uint32_t ByteReader::u32() {
  return load<std::uint32_t>(take(4));
}
std::uint64_t ByteReader::u64() {
  return load<std::uint64_t>(take(8));
}

bool ByteReader::boolean() {
  const auto value = u8();
  if (value > 1) {
    ok_ = false;
    input_ = {};
  }
  return ok_ && value == 1;
}

std::string_view ByteReader::view() {
  return take(u32());
}

std::uint32_t ByteReader::count(std::uint32_t min_element_bytes) {
  const auto value = u32();
  if (!ok_ || (min_element_bytes > 0 && value > input_.size() / min_element_bytes)) {
    ok_ = false;
    input_ = {};
    return 0;
  }
  return value;
}

std::vector<std::string> ByteReader::strings() {
  std::vector<std::string> values;
  const auto size = count(4);
  values.reserve(size);
  for (std::uint32_t i = 0; i < size && ok_; ++i) {
    values.push_back(string());
  }
  return values;
}

Result<> ByteReader::finish() const {
  if (!ok_) {
    return fail(Code::kInvalidArgument, "message is truncated or malformed", "malformed");
  }
  if (!input_.empty()) {
    return fail(Code::kInvalidArgument, "message has trailing bytes", "malformed");
  }
  return {};
}

}  // namespace atl
