#include "oci/archive_writer.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/strings.h"

namespace atl::oci {
namespace {

// Bytes that arrive in pieces of a given size, and what comes after them.
class Pieces final : public ByteSource {
 public:
  Pieces(std::string bytes, std::size_t size, Result<> end = {})
      : bytes_(std::move(bytes)), size_(size), end_(std::move(end)) {}
  Result<std::string_view> next() override {
    const auto piece = std::string_view{bytes_}.substr(at_, size_);
    at_ += piece.size();
    if (piece.empty() && !end_) {
      return fail(end_.error());
    }
    return piece;
  }

 private:
  const std::string bytes_;
  const std::size_t size_;
  const Result<> end_;
  std::size_t at_ = 0;
};

struct Item {
  ArchiveEntry entry;
  std::string content;
};

std::string pack(const std::vector<Item>& items, ArchiveFormat format = ArchiveFormat::kTar) {
  ArchiveWriter writer{format};
  std::string out;
  for (Item item : items) {
    item.entry.size = item.entry.type == EntryType::kFile ? item.content.size() : 0;
    EXPECT_TRUE(writer.begin(item.entry));
    EXPECT_TRUE(writer.write(item.content));
    out += writer.take();
  }
  EXPECT_TRUE(writer.finish());
  return out + writer.take();
}

struct Read {
  std::map<std::string, Item> items;
  std::string reason;  // empty: to the end
  std::string message;
};

Read unpack(ByteSource& source, ArchiveLimits limits = {}) {
  Read read;
  const auto run = [&]() -> Result<> {
    TRY(const auto reader, ArchiveReader::open({.stream = &source}, limits));
    for (;;) {
      TRY(const auto entry, reader->next());
      if (!entry) {
        return {};
      }
      Item item{*entry, {}};
      for (std::string buffer(1000, '\0');;) {
        TRY(const auto got, reader->read(buffer));
        if (got == 0) {
          break;
        }
        item.content += buffer.substr(0, got);
      }
      read.items[entry->path] = std::move(item);
    }
  };
  if (const auto done = run(); !done) {
    read.reason = done.error().reason;
    read.message = done.error().message;
  }
  return read;
}

TEST(ArchiveWriter, EverythingComesBack) {
  const std::string deep(150, 'd');
  const std::string long_path = concat(deep, "/", deep, "/", deep);
  const std::int64_t time = 981173106123456789;
  const std::vector<Item> items = {
      {{.path = "dir", .type = EntryType::kDirectory, .mode = 01777, .modified_unix_ns = time}, ""},
      {{.path = "dir/f", .mode = 04755, .uid = 33, .gid = 65535, .modified_unix_ns = time}, "abc"},
      {{.path = "empty", .modified_unix_ns = -1'500'000'000}, ""},
      {{.path = long_path, .uid = 3'000'000}, std::string(100'000, 'x')},
      {{.path = "no\xff text\n\xc3\xa9"}, "odd"},
      {{.path = "link", .type = EntryType::kSymlink, .link_target = "/a/../b"}, ""},
      {{.path = "long link", .type = EntryType::kSymlink, .link_target = long_path}, ""},
      {{.path = "hard", .type = EntryType::kHardlink, .link_target = "dir/f"}, ""},
  };
  for (const auto format : {ArchiveFormat::kTar, ArchiveFormat::kTarGzip}) {
    for (const std::size_t piece_bytes : {std::size_t{7}, std::size_t{1} << 20}) {
      Pieces source{pack(items, format), piece_bytes};
      const Read read = unpack(source, {.any_owner = true});
      EXPECT_EQ(read.reason, "") << read.message;
      EXPECT_EQ(read.items.size(), items.size());
      for (const Item& item : items) {
        ASSERT_TRUE(read.items.contains(item.entry.path)) << item.entry.path;
        const Item& back = read.items.at(item.entry.path);
        EXPECT_EQ(back.entry.type, item.entry.type);
        EXPECT_EQ(back.content, item.content);
        EXPECT_EQ(back.entry.link_target, item.entry.link_target);
        EXPECT_EQ(back.entry.modified_unix_ns, item.entry.modified_unix_ns) << item.entry.path;
        if (item.entry.type == EntryType::kFile) {
          EXPECT_EQ(back.entry.mode, item.entry.mode);
          EXPECT_EQ(back.entry.uid, item.entry.uid > 65535 ? kNobody : item.entry.uid);
        }
      }
    }
  }
}

TEST(ArchiveWriter, AnUnfinishedOneCanBeDropped) {
  ArchiveWriter writer{ArchiveFormat::kTarGzip};
  EXPECT_TRUE(writer.begin({.path = "f", .size = 1000}));
  EXPECT_TRUE(writer.write("only some of it"));
}

TEST(ArchiveStream, WhatIsHostileIsRefused) {
  const std::string good = pack({{{.path = "a"}, std::string(5000, 'a')}, {{.path = "b"}, "b"}});
  struct Case {
    const char* name;
    std::string bytes;
    std::string reason;
  };
  std::string checksum = good;
  checksum[checksum.find("ustar") - 100] ^= 1;
  const std::vector<Case> cases = {
      {"up", pack({{{.path = "x/../../y"}, ""}}), "path_escapes"},
      {"up alone", pack({{{.path = ".."}, ""}}), "path_escapes"},
      {"hard link up",
       pack({{{.path = "h", .type = EntryType::kHardlink, .link_target = "../x"}, ""}}),
       "path_escapes"},
      {"too deep",
       pack({{{.path =
                   [] {
                     std::string path;
                     for (int i = 0; i < 300; ++i) {
                       path += "d/";
                     }
                     return path + "f";
                   }()},
              ""}}),
       "path_escapes"},
      {"far owner", pack({{{.path = "f", .uid = 70'000}, ""}}), "bad_archive"},
      {"cut", good.substr(0, 3000), "bad_archive"},
      {"cut gzip",
       pack({{{.path = "a"}, std::string(100'000, 'a')}}, ArchiveFormat::kTarGzip).substr(0, 100),
       "bad_archive"},
      {"checksum", checksum, "bad_archive"},
      {"no archive", std::string(3000, 'z'), "bad_archive"},
      {"too large", pack({{{.path = "f"}, std::string(20'001, 'f')}}), "archive_too_large"},
      {"too many", pack(std::vector<Item>(11, {{.path = "f"}, ""})), "archive_too_large"},
  };
  for (const Case& each : cases) {
    Pieces source{each.bytes, 100};
    EXPECT_EQ(unpack(source, {.entries = 10, .unpacked_bytes = 20'000}).reason, each.reason)
        << each.name;
  }
}

TEST(ArchiveStream, AnErrorOfTheStreamIsTheReason) {
  const std::string good = pack({{{.path = "a"}, std::string(5000, 'a')}});
  Pieces source{good.substr(0, 2000), 100, fail(Code::kUnavailable, "gone", "client_gone")};
  EXPECT_EQ(unpack(source).reason, "client_gone");
}

TEST(ArchiveStream, NothingIsAnEmptyArchive) {
  Pieces source{"", 100};
  const Read read = unpack(source);
  EXPECT_EQ(read.reason, "");
  EXPECT_TRUE(read.items.empty());
}

}  // namespace
}  // namespace atl::oci
