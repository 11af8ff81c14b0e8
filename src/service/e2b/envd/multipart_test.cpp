// Uploads as they come over the wire, cut anywhere, and gzip around them.
#include "service/e2b/envd/multipart.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "io/reactor.h"
#include "service/e2b/envd/gzip.h"

namespace atl::service::e2b::envd {
namespace {

using Kind = MultipartDecoder::Event::Kind;

std::string read_all(std::string_view body, std::size_t piece) {
  MultipartDecoder decoder{"b"};
  std::string seen;
  for (;;) {
    const auto event = decoder.next();
    if (!event) {
      return "error";
    }
    if (!*event) {
      if (decoder.ended() || body.empty()) {
        return seen;
      }
      decoder.feed(body.substr(0, piece));
      body.remove_prefix(std::min(piece, body.size()));
      continue;
    }
    switch ((*event)->kind) {
      case Kind::kPart:
        seen += concat("[", (*event)->name, "|", (*event)->file_name, "]");
        break;
      case Kind::kData:
        seen += (*event)->bytes;
        break;
      case Kind::kPartEnd:
        seen += "/";
        break;
      case Kind::kEnd:
        seen += ".";
        break;
    }
  }
}

constexpr std::string_view kTwoFiles =
    "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/a "
    "\\\"q\"\r\n"
    "Content-Type: text/plain\r\n\r\none\r\n--ao\r\n-\r\n--b\r\n"
    "content-disposition: form-data; filename*=UTF-8''%c3%a4; name=file\r\n\r\n\r\n--b--\r\nrest";

TEST(Multipart, IsTheSameHoweverItIsCut) {
  for (const std::size_t piece : {1, 2, 3, 7, 1000}) {
    EXPECT_EQ(read_all(kTwoFiles, piece), "[file|/tmp/a \"q]one\r\n--ao\r\n-/[file|\xc3\xa4]/.")
        << piece;
  }
}

TEST(Multipart, WhatIsMalformedIsRefused) {
  EXPECT_EQ(read_all("--b\r\nno colon\r\n\r\nx\r\n--b--", 1000), "error");
  EXPECT_EQ(read_all("--bx\r\n\r\n", 1000), "error");
  EXPECT_EQ(read_all("--b\r\n" + std::string(kMaxPartHeadBytes + 10, 'x'), 100000), "error");
}

// What an upload may make the server keep is bounded, whatever it consists of.
TEST(Multipart, KeepsNothingOfAFlood) {
  for (const std::string_view begin :
       {"", "\r\n--b", "--b", "--b \t", "--b\r\nContent-Disposition: form-data\r\n\r\n", "--b--"}) {
    for (const std::string_view flood :
         {" ", "\t", "\r", "\n", "\r\n", "-", "\r\n--", "x", "\r\n--b\r"}) {
      MultipartDecoder decoder{"b"};
      decoder.feed(begin);
      std::string piece;
      while (piece.size() < 10'000) {
        piece += flood;
      }
      bool refused = false;
      for (int i = 0; i < 20 && !refused; ++i) {
        for (auto event = decoder.next(); !refused; event = decoder.next()) {
          refused = !event;
          if (refused || !*event) {
            break;
          }
        }
        EXPECT_LE(decoder.kept_bytes(), kMaxPartHeadBytes + piece.size()) << begin << flood;
        decoder.feed(piece);
      }
    }
  }
  EXPECT_EQ(read_all("--b" + std::string(100'000, ' ') + "\t\r\n\r\nx\r\n--b \t--", 1), "[|]x/.");
}

TEST(Multipart, BoundariesOfContentTypes) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=----x"), "----x");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=utf-8; Boundary=\"a;b\""), "a;b");
  EXPECT_FALSE(multipart_boundary("multipart/form-data"));
  EXPECT_FALSE(multipart_boundary("multipart/mixed; boundary=x"));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
}

// --- gzip ------------------------------------------------------------------------------------

class PieceBody final : public http::Body {
 public:
  PieceBody(std::string text, std::size_t piece) : text_(std::move(text)), piece_(piece) {}
  Task<std::size_t> read(std::span<char> buffer) override {
    const auto size = std::min({piece_, buffer.size(), text_.size() - at_});
    std::copy_n(text_.data() + at_, size, buffer.data());
    at_ += size;
    co_return size;
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  std::string text_;
  std::size_t piece_;
  std::size_t at_ = 0;
};

Result<std::string> unpack(std::string text, std::size_t piece) {
  PieceBody body{std::move(text), piece};
  GunzipBody unpacked{body};
  io::Reactor reactor;
  return reactor.run_until_complete(http::read_all(unpacked, std::size_t{1} << 24U));
}

TEST(Gzip, ComesBackInAnyPieces) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) {
    text += std::to_string(i * 7919);
  }
  GzipWriter writer;
  std::string packed = writer.add(std::string_view{text}.substr(0, 1000));
  packed += writer.add(std::string_view{text}.substr(1000));
  packed += writer.finish();
  EXPECT_LT(packed.size(), text.size());
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, packed.size()}) {
    EXPECT_EQ(unpack(packed, piece).value(), text) << piece;
  }
  // Members one after the other are one file.
  EXPECT_EQ(unpack(packed + packed, 4096).value(), text + text);
}

TEST(Gzip, WhatIsCutOrNoneIsRefused) {
  GzipWriter writer;
  std::string packed = writer.add("hello hello hello");
  packed += writer.finish();
  EXPECT_FALSE(unpack(packed.substr(0, packed.size() - 3), 1000));
  EXPECT_FALSE(unpack("plain text", 1000));
  EXPECT_EQ(unpack("", 1000).value(), "");
}

}  // namespace
}  // namespace atl::service::e2b::envd
