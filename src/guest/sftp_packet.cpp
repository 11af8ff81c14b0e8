#include "guest/sftp_packet.h"

#include <cerrno>
#include <chrono>

#include "base/strings.h"

namespace atl::guest::sftp {
namespace {

constexpr std::uint32_t kHasSize = 1;
constexpr std::uint32_t kHasOwner = 2;
constexpr std::uint32_t kHasMode = 4;
constexpr std::uint32_t kHasTimes = 8;
constexpr std::uint32_t kHasExtensions = 0x80000000U;

char type_letter(mode_t mode) {
  if (S_ISDIR(mode)) {
    return 'd';
  }
  if (S_ISLNK(mode)) {
    return 'l';
  }
  if (S_ISFIFO(mode)) {
    return 'p';
  }
  if (S_ISSOCK(mode)) {
    return 's';
  }
  if (S_ISCHR(mode)) {
    return 'c';
  }
  return S_ISBLK(mode) ? 'b' : '-';
}

std::string right_aligned(std::string text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

}  // namespace

Status status_of(int error_number) {
  switch (error_number) {
    case 0:
      return Status::kOk;
    case ENOENT:
    case ENOTDIR:
    case EBADF:
    case ELOOP:
      return Status::kNoSuchFile;
    case EPERM:
    case EACCES:
    case EFAULT:
      return Status::kPermissionDenied;
    case ENAMETOOLONG:
    case EINVAL:
      return Status::kBadMessage;
    case ENOSYS:
      return Status::kUnsupported;
    default:
      return Status::kFailure;
  }
}

std::string_view status_text(Status status) {
  switch (status) {
    case Status::kOk:
      return "Success";
    case Status::kEnd:
      return "End of file";
    case Status::kNoSuchFile:
      return "No such file";
    case Status::kPermissionDenied:
      return "Permission denied";
    case Status::kBadMessage:
      return "Bad message";
    case Status::kUnsupported:
      return "Operation unsupported";
    case Status::kFailure:
      break;
  }
  return "Failure";
}

std::string_view PacketReader::take(std::size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const auto taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::uint8_t PacketReader::u8() {
  const auto taken = take(1);
  return taken.empty() ? 0 : static_cast<std::uint8_t>(taken.front());
}

std::uint32_t PacketReader::u32() {
  std::uint32_t value = 0;
  for (const char byte : take(4)) {
    value = value << 8U | static_cast<unsigned char>(byte);
  }
  return value;
}

std::uint64_t PacketReader::u64() {
  const std::uint64_t high = u32();
  return high << 32U | u32();
}

std::string_view PacketReader::bytes() {
  return take(u32());
}

std::string PacketReader::path() {
  const auto text = bytes();
  if (text.contains('\0')) {
    ok_ = false;
    return {};
  }
  return std::string{text.empty() ? "." : text};
}

Attributes PacketReader::attributes() {
  Attributes attributes;
  const std::uint32_t flags = u32();
  if ((flags & kHasSize) != 0) {
    attributes.size = u64();
  }
  if ((flags & kHasOwner) != 0) {
    const std::uint32_t uid = u32();
    attributes.owner = {uid, u32()};
  }
  if ((flags & kHasMode) != 0) {
    attributes.mode = u32();
  }
  if ((flags & kHasTimes) != 0) {
    const std::uint32_t accessed = u32();
    attributes.times = {accessed, u32()};
  }
  if ((flags & kHasExtensions) != 0) {
    for (std::uint32_t left = u32(); left > 0 && ok_; --left) {
      (void)bytes();
      (void)bytes();
    }
  }
  return attributes;
}

PacketWriter::PacketWriter(Type type, std::uint32_t id) {
  packet_.append(4, '\0');
  packet_.push_back(static_cast<char>(type));
  u32(id);
}

PacketWriter& PacketWriter::u32(std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    packet_.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
  }
  return *this;
}

PacketWriter& PacketWriter::u64(std::uint64_t value) {
  return u32(static_cast<std::uint32_t>(value >> 32U)).u32(static_cast<std::uint32_t>(value));
}

PacketWriter& PacketWriter::bytes(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  packet_ += value;
  return *this;
}

PacketWriter& PacketWriter::attributes(const struct stat& info) {
  return u32(kHasSize | kHasOwner | kHasMode | kHasTimes)
      .u64(static_cast<std::uint64_t>(info.st_size))
      .u32(info.st_uid)
      .u32(info.st_gid)
      .u32(info.st_mode)
      .u32(static_cast<std::uint32_t>(info.st_atime))
      .u32(static_cast<std::uint32_t>(info.st_mtime));
}

std::string PacketWriter::finish() {
  const std::size_t size = packet_.size() - 4;
  for (unsigned i = 0; i < 4; ++i) {
    packet_[i] = static_cast<char>(size >> (24U - 8U * i));
  }
  return std::move(packet_);
}

std::string status_packet(std::uint32_t id, Status status) {
  return PacketWriter{Type::kStatus, id}
      .u32(static_cast<std::uint32_t>(status))
      .bytes(status_text(status))
      .bytes("")
      .finish();
}

std::string long_name(const struct stat& info, std::string_view name) {
  std::string line(1, type_letter(info.st_mode));
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    const auto bit = static_cast<mode_t>(1U << (kLetters.size() - 1 - i));
    line.push_back((info.st_mode & bit) != 0 ? kLetters[i] : '-');
  }
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(
      std::chrono::sys_seconds{std::chrono::seconds{info.st_mtime}})};
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::string when =
      concat(kMonths.substr((static_cast<unsigned>(day.month()) - 1) * 3, 3), " ",
             right_aligned(std::to_string(static_cast<unsigned>(day.day())), 2), " ",
             right_aligned(std::to_string(static_cast<int>(day.year())), 5));
  return concat(line, " ", right_aligned(std::to_string(info.st_nlink), 4), " ",
                right_aligned(std::to_string(info.st_uid), 8), " ",
                right_aligned(std::to_string(info.st_gid), 8), " ",
                right_aligned(std::to_string(info.st_size), 8), " ", when, " ", name);
}

}  // namespace atl::guest::sftp
