#include "guest/journal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "guest/limits.h"

namespace atl::guest {
namespace {

void append(Journal& journal, Stream stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto room = journal.prepare();
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    journal.commit(stream, size);
    bytes.remove_prefix(size);
  }
}

std::string read_all(const Journal& journal, Journal::Cursor cursor, std::size_t piece_bytes) {
  std::string all;
  for (;;) {
    const auto piece = journal.read(cursor, piece_bytes);
    if (piece.bytes.empty()) {
      return all;
    }
    all += piece.bytes;
  }
}

TEST(Journal, KeepsOrderAndStreams) {
  JournalBudget budget{.max_bytes = 1 << 20};
  Journal journal{1 << 20, budget};
  append(journal, Stream::kStdout, "one");
  append(journal, Stream::kStdout, "two");
  append(journal, Stream::kStderr, "three");
  auto cursor = journal.seek(0);
  auto piece = journal.read(cursor, 100);
  EXPECT_EQ(piece.bytes, "onetwo");
  EXPECT_EQ(piece.stream, Stream::kStdout);
  EXPECT_EQ(piece.offset, 0U);
  piece = journal.read(cursor, 2);
  EXPECT_EQ(piece.bytes, "th");
  EXPECT_EQ(piece.stream, Stream::kStderr);
  EXPECT_EQ(piece.offset, 6U);
  EXPECT_EQ(journal.read(cursor, 100).bytes, "ree");
  EXPECT_TRUE(journal.read(cursor, 100).bytes.empty());
  append(journal, Stream::kStderr, "!");
  EXPECT_EQ(journal.read(cursor, 100).bytes, "!");
  append(journal, Stream::kChannel, "c");
  append(journal, Stream::kPty, "t");
  EXPECT_EQ(journal.read(cursor, 100).stream, Stream::kChannel);
  EXPECT_EQ(journal.read(cursor, 100).stream, Stream::kPty);
}

TEST(Journal, WhatIsPackedIsStillThere) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{5000}, kJournalChunkBytes,
        kJournalChunkBytes + 1, 3 * kJournalChunkBytes}) {
    JournalBudget budget{.max_bytes = 1 << 20};
    Journal journal{1 << 20, budget};
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < size; i += 7) {
      bytes[i] = static_cast<char>(i);
    }
    append(journal, Stream::kStdout, bytes);
    (void)journal.prepare();  // for output that did not come
    auto reader = journal.seek(size / 2);
    (void)journal.read(reader, 1);
    journal.pack();
    journal.pack();
    EXPECT_EQ(read_all(journal, journal.seek(0), 1000), bytes);
    EXPECT_EQ(read_all(journal, reader, 1000), bytes.substr(std::min(size, size / 2 + 1)));
    EXPECT_EQ(journal.end_offset(), size);
    journal.trim(UINT64_MAX);
    EXPECT_EQ(budget.used_bytes, size);
  }
}

TEST(Journal, SeekReachesEveryOffset) {
  JournalBudget budget{.max_bytes = 1 << 20};
  Journal journal{1 << 20, budget};
  std::mt19937 random{7};
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes(1 + random() % 80, static_cast<char>(random()));
    append(journal, random() % 2 == 0 ? Stream::kStdout : Stream::kStderr, bytes);
    all += bytes;
  }
  for (std::size_t offset = 0; offset < all.size(); offset += 997) {
    EXPECT_EQ(read_all(journal, journal.seek(offset), 1 + offset % 100), all.substr(offset));
  }
  EXPECT_EQ(journal.seek(UINT64_MAX).offset, all.size());
}

TEST(Journal, TrimKeepsTheNewestBytes) {
  JournalBudget budget{.max_bytes = 1 << 30};
  Journal journal{100000, budget};
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string bytes(10007, static_cast<char>('a' + i % 26));
    append(journal, Stream::kStdout, bytes);
    all += bytes;
    journal.trim(UINT64_MAX);
  }
  EXPECT_EQ(journal.begin_offset(), all.size() - 100000);
  EXPECT_EQ(read_all(journal, journal.seek(0), 65536), all.substr(all.size() - 100000));
  EXPECT_LE(budget.used_bytes, 100000 + 2 * kJournalChunkBytes);
}

TEST(Journal, NothingAReaderNeedsIsTrimmed) {
  JournalBudget budget{.max_bytes = 1 << 20};
  Journal journal{0, budget};
  const std::string all(5 * kJournalChunkBytes + 17, 'x');
  append(journal, Stream::kStdout, all);
  journal.trim(10);
  const Journal::Cursor reader{.offset = 10};
  EXPECT_EQ(read_all(journal, reader, 1000).size(), all.size() - 10);
  journal.trim(UINT64_MAX);
  EXPECT_EQ(journal.begin_offset(), journal.end_offset());
  EXPECT_EQ(budget.used_bytes, 0U);
}

TEST(Journal, TheSharedBudgetBindsTheOneThatGrows) {
  JournalBudget budget{.max_bytes = 4 * kJournalChunkBytes};
  Journal quiet{1 << 30, budget};
  append(quiet, Stream::kStdout, std::string(kJournalChunkBytes, 'q'));
  {
    Journal loud{1 << 30, budget};
    for (int i = 0; i < 50; ++i) {
      append(loud, Stream::kStdout, std::string(kJournalChunkBytes, 'l'));
      loud.trim(UINT64_MAX);
    }
    EXPECT_LE(budget.used_bytes, budget.max_bytes);
    EXPECT_EQ(read_all(quiet, quiet.seek(0), 65536).size(), kJournalChunkBytes);
  }
  EXPECT_EQ(budget.used_bytes, kJournalChunkBytes);
}

}  // namespace
}  // namespace atl::guest
