// SFTP version 3 as bytes: numbers most significant byte first, strings with a length before them.
//
// The client at the other end is whoever logged in, and its bytes are checked all the same: a
// reader never reads past its packet, and is sticky like base/bytes.h.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::guest::sftp {

inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint32_t kMaxPacketBytes = 256 * 1024;
inline constexpr std::uint32_t kMaxDataBytes = kMaxPacketBytes - 1024;
inline constexpr std::size_t kMaxHandles = 128;
inline constexpr std::size_t kNamesPerAnswer = 100;

enum class Type : std::uint8_t {
  kInit = 1,
  kVersion = 2,
  kOpen = 3,
  kClose = 4,
  kRead = 5,
  kWrite = 6,
  kLstat = 7,
  kFstat = 8,
  kSetstat = 9,
  kFsetstat = 10,
  kOpendir = 11,
  kReaddir = 12,
  kRemove = 13,
  kMkdir = 14,
  kRmdir = 15,
  kRealpath = 16,
  kStat = 17,
  kRename = 18,
  kReadlink = 19,
  kSymlink = 20,
  kStatus = 101,
  kHandle = 102,
  kData = 103,
  kName = 104,
  kAttributes = 105,
  kExtended = 200,
  kExtendedReply = 201,
};

enum class Status : std::uint32_t {
  kOk = 0,
  kEnd = 1,
  kNoSuchFile = 2,
  kPermissionDenied = 3,
  kFailure = 4,
  kBadMessage = 5,
  kUnsupported = 8,
};
Status status_of(int error_number);
std::string_view status_text(Status status);

struct Attributes {
  std::optional<std::uint64_t> size;
  struct Owner {
    std::uint32_t uid;
    std::uint32_t gid;
  };
  std::optional<Owner> owner;
  std::optional<std::uint32_t> mode;
  struct Times {
    std::uint32_t accessed;
    std::uint32_t modified;
  };
  std::optional<Times> times;
};

class PacketReader {
 public:
  explicit PacketReader(std::string_view packet) : rest_(packet) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view bytes();
  // A string that becomes a path: without NUL, not empty.
  std::string path();
  Attributes attributes();
  bool ok() const { return ok_; }

 private:
  std::string_view take(std::size_t size);
  std::string_view rest_;
  bool ok_ = true;
};

class PacketWriter {
 public:
  PacketWriter(Type type, std::uint32_t id);
  PacketWriter& u32(std::uint32_t value);
  PacketWriter& u64(std::uint64_t value);
  PacketWriter& bytes(std::string_view value);
  PacketWriter& attributes(const struct stat& info);
  // With its length in front.
  std::string finish();

 private:
  std::string packet_;
};

// What most requests are answered with.
std::string status_packet(std::uint32_t id, Status status);
// One line as `ls -l` writes it.
std::string long_name(const struct stat& info, std::string_view name);

}  // namespace atl::guest::sftp
