// gzip, as it comes: bytes in, bytes out, a bounded piece at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace atl::service::e2b::envd {

class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  std::string add(std::string_view bytes);
  std::string finish();

 private:
  struct Impl;
  std::string run(std::string_view bytes, int flush);
  std::unique_ptr<Impl> impl_;
};

// The body that was compressed into another one. kInvalidArgument when it is no gzip, or cut short.
class GunzipBody final : public http::Body {
 public:
  explicit GunzipBody(http::Body& inner);  // borrowed
  ~GunzipBody() override;
  GunzipBody(const GunzipBody&) = delete;
  GunzipBody& operator=(const GunzipBody&) = delete;

  Task<std::size_t> read(std::span<char> buffer) override;
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  struct Impl;
  http::Body& inner_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl::service::e2b::envd
