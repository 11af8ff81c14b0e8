// SFTP packet by packet, on a directory of the test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "guest/sftp_server.h"

namespace atl::guest::sftp {
namespace {

class SftpTest : public testing::Test {
 protected:
  SftpTest() {
    char name[] = "/tmp/atoll-sftp-XXXXXX";
    CHECK(::mkdtemp(name) != nullptr);
    ::umask(022);
    directory_ = name;
  }
  ~SftpTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string at(std::string_view name) const { return concat(directory_, "/", name); }
  // Sends what was written, without its length; the answer without its own.
  std::string send(PacketWriter& packet) {
    const std::string answer = server_.answer(packet.finish().substr(4));
    EXPECT_GE(answer.size(), 5U);
    return answer.substr(4);
  }
  Status send_for_status(PacketWriter& packet) {
    const std::string answer = send(packet);
    EXPECT_EQ(static_cast<Type>(answer.front()), Type::kStatus);
    PacketReader in{answer};
    (void)in.u8();
    EXPECT_EQ(in.u32(), kId);
    return static_cast<Status>(in.u32());
  }
  std::string open(const std::string& path, std::uint32_t flags) {
    PacketWriter packet{Type::kOpen, kId};
    packet.bytes(path).u32(flags).u32(0);
    const std::string answer = send(packet);
    PacketReader in{answer};
    EXPECT_EQ(static_cast<Type>(in.u8()), Type::kHandle);
    (void)in.u32();
    return std::string{in.bytes()};
  }

  static constexpr std::uint32_t kId = 77;
  static constexpr std::uint32_t kReading = 1;
  static constexpr std::uint32_t kCreating = 2 | 8 | 16;
  std::string directory_;
  Server server_;
};

TEST_F(SftpTest, WritesAndReadsAtAnyOffset) {
  const std::string handle = open(at("file"), kCreating);
  for (const std::uint64_t offset : {6U, 0U}) {
    PacketWriter write{Type::kWrite, kId};
    write.bytes(handle).u64(offset).bytes(offset == 0 ? "hello " : "world");
    EXPECT_EQ(send_for_status(write), Status::kOk);
  }
  PacketWriter close{Type::kClose, kId};
  close.bytes(handle);
  EXPECT_EQ(send_for_status(close), Status::kOk);
  const std::string reading = open(at("file"), kReading);
  PacketWriter read{Type::kRead, kId};
  read.bytes(reading).u64(3).u32(100);
  const std::string answer = send(read);
  PacketReader in{answer};
  EXPECT_EQ(static_cast<Type>(in.u8()), Type::kData);
  (void)in.u32();
  EXPECT_EQ(in.bytes(), "lo world");
  PacketWriter beyond{Type::kRead, kId};
  beyond.bytes(reading).u64(11).u32(100);
  EXPECT_EQ(send_for_status(beyond), Status::kEnd);
  PacketWriter again{Type::kClose, kId};
  again.bytes(handle);
  EXPECT_EQ(send_for_status(again), Status::kNoSuchFile);
}

TEST_F(SftpTest, RenamesWithoutReplacingUnlessAsked) {
  for (const auto* name : {"a", "b"}) {
    PacketWriter close{Type::kClose, kId};
    close.bytes(open(at(name), kCreating));
    EXPECT_EQ(send_for_status(close), Status::kOk);
  }
  PacketWriter plain{Type::kRename, kId};
  plain.bytes(at("a")).bytes(at("b"));
  EXPECT_EQ(send_for_status(plain), Status::kFailure);
  PacketWriter replacing{Type::kExtended, kId};
  replacing.bytes("posix-rename@openssh.com").bytes(at("a")).bytes(at("b"));
  EXPECT_EQ(send_for_status(replacing), Status::kOk);
  PacketWriter gone{Type::kLstat, kId};
  gone.bytes(at("a"));
  EXPECT_EQ(send_for_status(gone), Status::kNoSuchFile);
}

TEST_F(SftpTest, ListsDirectories) {
  PacketWriter make{Type::kMkdir, kId};
  make.bytes(at("inner")).u32(0);
  EXPECT_EQ(send_for_status(make), Status::kOk);
  PacketWriter opening{Type::kOpendir, kId};
  opening.bytes(directory_);
  const std::string opened = send(opening);
  PacketReader handle_in{opened};
  EXPECT_EQ(static_cast<Type>(handle_in.u8()), Type::kHandle);
  (void)handle_in.u32();
  const std::string handle{handle_in.bytes()};
  PacketWriter list{Type::kReaddir, kId};
  list.bytes(handle);
  const std::string listed = send(list);
  PacketReader in{listed};
  EXPECT_EQ(static_cast<Type>(in.u8()), Type::kName);
  (void)in.u32();
  EXPECT_EQ(in.u32(), 3U);
  EXPECT_TRUE(listed.contains("inner"));
  EXPECT_TRUE(listed.contains("drwxr-xr-x"));
  PacketWriter more{Type::kReaddir, kId};
  more.bytes(handle);
  EXPECT_EQ(send_for_status(more), Status::kEnd);
}

TEST_F(SftpTest, SaysWhatItDoesNotUnderstand) {
  PacketWriter unknown{static_cast<Type>(99), kId};
  EXPECT_EQ(send_for_status(unknown), Status::kUnsupported);
  PacketWriter extension{Type::kExtended, kId};
  extension.bytes("nobody@example.com");
  EXPECT_EQ(send_for_status(extension), Status::kUnsupported);
  PacketWriter cut{Type::kOpen, kId};
  cut.u32(1000);
  EXPECT_EQ(send_for_status(cut), Status::kBadMessage);
  PacketWriter hidden{Type::kRemove, kId};
  hidden.bytes(std::string_view{"a\0b", 3});
  EXPECT_EQ(send_for_status(hidden), Status::kBadMessage);
  const std::string nothing = server_.answer({});
  EXPECT_EQ(static_cast<Type>(nothing[4]), Type::kStatus);
}

TEST_F(SftpTest, KeepsItsNumberOfHandles) {
  PacketWriter close{Type::kClose, kId};
  close.bytes(open(at("file"), kCreating));
  EXPECT_EQ(send_for_status(close), Status::kOk);
  for (std::size_t i = 0; i < kMaxHandles; ++i) {
    (void)open(at("file"), kReading);
  }
  PacketWriter one_more{Type::kOpen, kId};
  one_more.bytes(at("file")).u32(kReading).u32(0);
  EXPECT_EQ(send_for_status(one_more), Status::kFailure);
}

}  // namespace
}  // namespace atl::guest::sftp
