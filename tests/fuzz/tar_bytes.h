// Tar headers by hand: seeds no honest tool would write, and checksums that follow a mutation.
#pragma once

#include <array>
#include <cstdio>

#include "fuzz.h"

namespace atl::fuzz {

inline constexpr std::size_t kTarBlockBytes = 512;
inline constexpr std::size_t kTarMagicOffset = 257;
inline constexpr std::size_t kTarSumOffset = 148;

// Makes the checksum of every block that looks like a header right, or no mutation of a header
// would ever be read.
inline std::string with_right_checksums(std::string tar) {
  for (std::size_t at = 0; at + kTarBlockBytes <= tar.size(); at += kTarBlockBytes) {
    if (tar.compare(at + kTarMagicOffset, 5, "ustar") != 0) {
      continue;
    }
    tar.replace(at + kTarSumOffset, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = at; i < at + kTarBlockBytes; ++i) {
      sum += static_cast<unsigned char>(tar[i]);
    }
    std::array<char, 8> digits;
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    tar.replace(at + kTarSumOffset, 7, digits.data(), 7);
  }
  return tar;
}

// One entry; `type` is tar's own: 0 file, 1 hard link, 2 symlink, 3 device, 5 directory, L long
// name, x extended header.
inline std::string tar_entry(std::string_view path, char type, std::string_view content = {},
                             std::string_view link = {}) {
  std::string block(kTarBlockBytes, '\0');
  block.replace(0, path.size(), path);
  block.replace(100, 24, std::string("0000644\0000000000\0000000000", 24));
  std::array<char, 13> size;
  std::snprintf(size.data(), size.size(), "%011zo", content.size());
  block.replace(124, 12, size.data(), 12);
  block.replace(136, 12, std::string("14000000000\0", 12));
  block[156] = type;
  block.replace(157, link.size(), link);
  block.replace(kTarMagicOffset, 8, std::string("ustar\00000", 8));
  block += content;
  block.resize((block.size() + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes);
  return with_right_checksums(std::move(block));
}

inline Seeds tar_seeds() {
  const std::string end(2 * kTarBlockBytes, '\0');
  return {
      tar_entry("a/", '5') + tar_entry("a/b", '0', "content") + end,
      tar_entry("./a//b", '0', "x") + tar_entry("/abs", '0', "y") + end,
      tar_entry("../up", '0', "x") + tar_entry("a/../../b", '0') + end,
      tar_entry("link", '2', {}, "/etc") + tar_entry("link/x", '0', "through") + end,
      tar_entry("f", '0', "x") + tar_entry("h", '1', {}, "f") + tar_entry("i", '1', {}, "../f") +
          end,
      tar_entry("h", '1', {}, "missing") + tar_entry("h", '1', {}, "h") + end,
      tar_entry("dev", '3') + tar_entry("fifo", '6') + end,
      tar_entry(".wh.a", '0') + tar_entry("d/.wh..wh..opq", '0') + tar_entry(".wh.", '0') + end,
      tar_entry("././@LongLink", 'L', std::string(300, 'n') + '\0') + tar_entry("n", '0') + end,
      tar_entry("x", 'x', "30 path=from-extended-header\n") + tar_entry("n", '0', "y") + end,
      tar_entry("x", 'x', "22 size=99999999999999\n") + tar_entry("n", '0', "y") + end,
      tar_entry(".dockerignore", '0', "*.o\n!a.o\n") + tar_entry("a.o", '0') +
          tar_entry("b.o", '0') + end,
      tar_entry("cut", '0', std::string(600, 'c')).substr(0, 700),
      tar_entry("a", '5') + tar_entry("a", '0', "file over directory") + tar_entry("a/b", '0') +
          end,
      std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20),
      std::string("\x28\xb5\x2f\xfd\x24\0\1\0\0\x99\xe9\xd8\x51", 13),
  };
}

}  // namespace atl::fuzz
