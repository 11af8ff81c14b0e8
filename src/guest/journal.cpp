#include "guest/journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr unsigned kLengthBits = 29;
constexpr std::uint32_t kLengthMask = (1U << kLengthBits) - 1;

std::uint32_t mark_of(Stream stream, std::size_t length) {
  return static_cast<std::uint32_t>(stream) << kLengthBits | static_cast<std::uint32_t>(length);
}
Stream stream_of(std::uint32_t mark) {
  return static_cast<Stream>(mark >> kLengthBits);
}

}  // namespace

Journal::~Journal() {
  for (const auto& chunk : chunks_) {
    budget_.used_bytes -= chunk.size;
  }
}

std::span<char> Journal::prepare() {
  CHECK(!packed_);
  if (chunks_.empty() || chunks_.back().size == kJournalChunkBytes) {
    Chunk chunk;
    chunk.begin = end_offset_;
    // Left uninitialised on purpose: pages nobody wrote to cost nothing.
    chunk.bytes.reset(new char[kJournalChunkBytes]);
    chunks_.push_back(std::move(chunk));
  }
  Chunk& last = chunks_.back();
  return {last.bytes.get() + last.size, kJournalChunkBytes - last.size};
}

void Journal::commit(Stream stream, std::size_t size) {
  CHECK(!chunks_.empty() && size <= kJournalChunkBytes - chunks_.back().size);
  if (size == 0) {
    return;
  }
  Chunk& last = chunks_.back();
  if (!last.marks.empty() && stream_of(last.marks.back()) == stream) {
    last.marks.back() += static_cast<std::uint32_t>(size);
  } else {
    last.marks.push_back(mark_of(stream, size));
  }
  last.size += static_cast<std::uint32_t>(size);
  end_offset_ += size;
  budget_.used_bytes += size;
}

void Journal::pack() {
  if (std::exchange(packed_, true) || chunks_.empty()) {
    return;
  }
  Chunk& last = chunks_.back();
  if (last.size == 0) {
    chunks_.pop_back();
  } else if (last.size < kJournalChunkBytes) {
    std::unique_ptr<char[]> exact{new char[last.size]};
    std::memcpy(exact.get(), last.bytes.get(), last.size);
    last.bytes = std::move(exact);
    last.marks.shrink_to_fit();
  }
}

void Journal::trim(std::uint64_t needed_from) {
  while (!chunks_.empty()) {
    const Chunk& first = chunks_.front();
    const bool needed = first.end() > needed_from || first.size == 0;
    const bool too_old = end_offset_ - first.end() >= capacity_bytes_;
    const bool too_much = budget_.used_bytes > budget_.max_bytes && chunks_.size() > 1;
    if (needed || !(too_old || too_much)) {
      return;
    }
    budget_.used_bytes -= first.size;
    chunks_.pop_front();
  }
}

bool Journal::full_after(std::uint64_t offset) const {
  return end_offset_ > offset && (end_offset_ - offset + kJournalChunkBytes > capacity_bytes_ ||
                                  budget_.used_bytes + kJournalChunkBytes > budget_.max_bytes);
}

std::uint64_t Journal::begin_offset() const {
  const std::uint64_t oldest_kept =
      end_offset_ > capacity_bytes_ ? end_offset_ - capacity_bytes_ : 0;
  return std::max(oldest_kept, chunks_.empty() ? end_offset_ : chunks_.front().begin);
}

Journal::Cursor Journal::seek(std::uint64_t offset) const {
  return Cursor{.offset = std::clamp(offset, begin_offset(), end_offset_)};
}

const Journal::Chunk* Journal::find(std::uint64_t offset) const {
  const auto after = std::upper_bound(
      chunks_.begin(), chunks_.end(), offset,
      [](std::uint64_t wanted, const Chunk& chunk) { return wanted < chunk.begin; });
  return after == chunks_.begin() ? nullptr : &*std::prev(after);
}

Journal::Piece Journal::read(Cursor& cursor, std::size_t max_bytes) const {
  const Chunk* chunk = find(cursor.offset);
  if (chunk == nullptr || cursor.offset >= chunk->end()) {
    return {};
  }
  if (cursor.chunk_begin != chunk->begin) {
    cursor.chunk_begin = chunk->begin;
    cursor.mark = 0;
    cursor.mark_begin = 0;
  }
  const auto position = static_cast<std::uint32_t>(cursor.offset - chunk->begin);
  while (position >= cursor.mark_begin + (chunk->marks[cursor.mark] & kLengthMask)) {
    cursor.mark_begin += chunk->marks[cursor.mark] & kLengthMask;
    ++cursor.mark;
  }
  const std::uint32_t mark = chunk->marks[cursor.mark];
  const std::uint32_t mark_end = cursor.mark_begin + (mark & kLengthMask);
  const std::size_t size = std::min<std::size_t>(mark_end - position, max_bytes);
  const Piece piece{stream_of(mark), cursor.offset, {chunk->bytes.get() + position, size}};
  cursor.offset += size;
  return piece;
}

}  // namespace atl::guest
