// A secret in the clear: one owner, wiped when it goes, and nothing that prints takes it.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace atl::secrets {

class Plaintext {
 public:
  Plaintext() = default;
  // Copies; the caller wipes what it read the bytes from (see `wipe`).
  explicit Plaintext(std::string_view bytes);
  Plaintext(Plaintext&& other) noexcept
      : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  Plaintext& operator=(Plaintext&& other) noexcept;
  Plaintext(const Plaintext&) = delete;
  Plaintext& operator=(const Plaintext&) = delete;
  ~Plaintext();

  // A second one is made in words, never by accident.
  Plaintext copy() const { return Plaintext{reveal()}; }
  std::string_view reveal() const { return {bytes_.get(), size_}; }
  bool empty() const { return size_ == 0; }

 private:
  // Not a string: a short one would leave its bytes behind in the object it is moved from.
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

std::ostream& operator<<(std::ostream&, const Plaintext&) = delete;

// Overwrites the bytes before the string lets go of them.
void wipe(std::string& bytes);

}  // namespace atl::secrets
