// The output of one process, in the order it was read, bounded.
//
// Bytes live in chunks of kJournalChunkBytes; a chunk also keeps marks, one u32 per run of bytes
// of the same stream (three bits of stream, the rest length), so a thousand one-byte writes to
// alternating streams cost five bytes each and not a record each. Offsets count all bytes ever
// appended. The owner trims: a chunk goes when it is older than the newest `capacity_bytes` (or
// the agent's whole budget is used up) and no connected reader still needs it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "guest/wire.h"

namespace atl::guest {

// Shared by all journals of an agent.
struct JournalBudget {
  std::uint64_t max_bytes = 0;
  std::uint64_t used_bytes = 0;
};

class Journal {
 public:
  // Where a reader is. Everything but `offset` is a hint that saves searching.
  struct Cursor {
    std::uint64_t offset = 0;
    std::uint64_t chunk_begin = UINT64_MAX;
    std::uint32_t mark = 0;
    std::uint32_t mark_begin = 0;  // position of the mark's first byte in its chunk
  };
  struct Piece {
    Stream stream = Stream::kStdout;
    std::uint64_t offset = 0;
    std::string_view bytes;
  };

  Journal(std::uint32_t capacity_bytes, JournalBudget& budget)
      : capacity_bytes_(capacity_bytes), budget_(budget) {}
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Room at the end to read into; never empty. Valid until the next call of any method.
  std::span<char> prepare();
  // Makes the first `size` prepared bytes part of the journal.
  void commit(Stream stream, std::size_t size);
  // Nothing more comes: gives back the room that was kept for it. A table of processes that have
  // ended would else be mostly that, and each fork copies the tables of its pages.
  // REQUIRES: no prepare() afterwards.
  void pack();
  // Forgets what is too old, but nothing at or after `needed_from`.
  void trim(std::uint64_t needed_from);

  // One more chunk would push out bytes from `offset` on.
  bool full_after(std::uint64_t offset) const;

  // A cursor at `offset`, moved to the nearest offset there is.
  Cursor seek(std::uint64_t offset) const;
  // The next run of bytes of one stream, at most `max_bytes`; empty at the end.
  Piece read(Cursor& cursor, std::size_t max_bytes) const;

  std::uint32_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t begin_offset() const;
  std::uint64_t end_offset() const { return end_offset_; }

 private:
  struct Chunk {
    std::uint64_t begin = 0;
    std::uint32_t size = 0;
    std::unique_ptr<char[]> bytes;
    std::vector<std::uint32_t> marks;
    std::uint64_t end() const { return begin + size; }
  };

  const Chunk* find(std::uint64_t offset) const;

  const std::uint32_t capacity_bytes_;
  JournalBudget& budget_;
  std::uint64_t end_offset_ = 0;
  std::deque<Chunk> chunks_;
  bool packed_ = false;
};

}  // namespace atl::guest
