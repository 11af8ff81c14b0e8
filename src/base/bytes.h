// The binary vocabulary of Atoll's two private protocols (node and guest).
//
// Integers are little-endian and fixed width, strings are a u32 length and their bytes, lists are
// a u32 count and their elements. A Reader never reads past its input and never allocates more
// than its input can hold: every byte may be hostile. It is sticky: after the first bad field
// every read returns a zero value, and `finish()` says what was wrong. So decoding is straight
// code with one check at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl {

class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t value);
  ByteWriter& u32(std::uint32_t value);
  ByteWriter& u64(std::uint64_t value);
  ByteWriter& i64(std::int64_t value) { return u64(static_cast<std::uint64_t>(value)); }
  ByteWriter& boolean(bool value) { return u8(value ? 1 : 0); }
  ByteWriter& string(std::string_view value);
  ByteWriter& strings(const std::vector<std::string>& values);

  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view input) : input_(input) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::int64_t i64() { return static_cast<std::int64_t>(u64()); }
  bool boolean();           // fails on anything but 0 and 1
  std::string_view view();  // a string that borrows from the input
  std::string string() { return std::string{view()}; }
  std::vector<std::string> strings();
  // A list count; fails when the remaining input cannot hold `count` elements of at least
  // `min_element_bytes`, so a hostile count never becomes an allocation.
  std::uint32_t count(std::uint32_t min_element_bytes);

  bool ok() const { return ok_; }
  std::size_t remaining() const { return input_.size(); }
  // Ok when every read succeeded and nothing is left over.
  Result<> finish() const;

 private:
  std::string_view take(std::size_t size);

  std::string_view input_;
  bool ok_ = true;
};

}  // namespace atl
