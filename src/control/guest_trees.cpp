#include "control/guest_trees.h"

#include <algorithm>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kBatchBytes = 1U << 20;
constexpr std::size_t kPieceBytes = std::size_t{128} * 1024;

guest::FileType wire_type(oci::EntryType type) {
  switch (type) {
    case oci::EntryType::kDirectory:
      return guest::FileType::kDirectory;
    case oci::EntryType::kSymlink:
      return guest::FileType::kSymlink;
    case oci::EntryType::kHardlink:
      return guest::FileType::kHardlink;
    case oci::EntryType::kFifo:
      return guest::FileType::kFifo;
    case oci::EntryType::kFile:
    case oci::EntryType::kSkipped:
      break;
  }
  return guest::FileType::kFile;
}

void change(guest::TreeEntry& entry, const TreeChanges& changes) {
  entry.uid = changes.uid.value_or(entry.uid);
  entry.gid = changes.gid.value_or(entry.gid);
  if (changes.mode && entry.type != guest::FileType::kSymlink) {
    entry.mode = *changes.mode;
  }
}

guest::TreeEntry to_wire(const oci::ArchiveEntry& from, const TreeChanges& changes) {
  guest::TreeEntry entry{.path = from.path,
                         .type = wire_type(from.type),
                         .mode = from.mode,
                         .size = from.type == oci::EntryType::kFile ? from.size : 0,
                         .modified_unix_ns = from.modified_unix_ns,
                         .uid = from.uid,
                         .gid = from.gid,
                         .link_target = from.link_target};
  for (const oci::ArchiveAttribute& attribute : from.attributes) {
    entry.attributes.push_back({attribute.name, attribute.value});
  }
  change(entry, changes);
  return entry;
}

}  // namespace

Result<TreeBatches::Frames> TreeBatches::next(const std::function<bool()>& pause) {
  Frames frames;
  std::size_t bytes = 0;
  while (bytes < kBatchBytes && !failure_ && !ended_) {
    const std::size_t before = frames.size();
    if (auto added = add_frame(frames); !added) {
      Error error = std::move(added).error();
      if (!path_.empty()) {
        error.message = concat("at entry ", to_valid_utf8(path_), ": ", error.message);
      }
      failure_ = std::move(error);
      break;
    }
    bytes += frames.size() > before ? frames.back().second.size() : 0;
    if (pause && pause()) {
      break;
    }
  }
  if (failure_ && frames.empty()) {
    return fail(*failure_);
  }
  return frames;
}

Result<> TreeBatches::add_frame(Frames& frames) {
  if (left_ == 0) {
    TRY(const auto entry, source_.next());
    if (!entry) {
      ended_ = true;
      return {};
    }
    if (entry->type == oci::EntryType::kSkipped) {
      return {};
    }
    path_ = entry->path;
    const guest::TreeEntry wire = to_wire(*entry, changes_);
    left_ = wire.size;
    frames.emplace_back(guest::Kind::kTreeEntry, guest::encode(wire));
    return {};
  }
  std::string piece(std::min<std::uint64_t>(left_, kPieceBytes), '\0');
  TRY(const std::size_t got, source_.read(piece));
  if (got == 0) {
    return fail(Code::kDataLoss, "a file is shorter than it said", "bad_archive");
  }
  piece.resize(got);
  left_ -= got;
  frames.emplace_back(guest::Kind::kData, std::move(piece));
  return {};
}

Task<std::unique_ptr<TreeWriter>> TreeWriter::open(io::Reactor& reactor, const TreeTarget& target) {
  CO_TRY(auto channel, co_await GuestChannel::open(reactor, target.guest_socket));
  CO_TRY_DO(co_await channel->send(guest::Kind::kWriteTree,
                                   guest::encode(guest::PathRequest{target.path, target.user})));
  co_return std::make_unique<TreeWriter>(std::move(channel));
}

// A guest that refuses says why and closes: the reason is worth more than the broken pipe.
Task<> TreeWriter::send(guest::Kind kind, std::string_view bytes) {
  auto sent = co_await channel_->send_bytes(kind, bytes);
  if (sent || sent.error().code == Code::kCancelled) {
    co_return std::move(sent);
  }
  auto answer = co_await channel_->receive(kGuestReasonTimeout);
  co_return fail(answer ? std::move(sent).error() : std::move(answer).error());
}

// A frame that belongs to no tree ends it: the guest refuses it after all that came before.
Task<> TreeWriter::abandon() {
  CO_TRY_DO(co_await send(guest::Kind::kDone, {}));
  CO_TRY_DO(co_await channel_->receive(kGuestStallTimeout));
  co_return guest_broke_protocol("an answer to a tree that was not finished");
}

Task<guest::TreeDone> TreeWriter::finish() {
  CO_TRY_DO(co_await send(guest::Kind::kEnd, {}));
  CO_TRY(const auto payload, co_await channel_->expect(guest::Kind::kTreeDone, kTreeFinishTimeout));
  co_return from_guest(guest::decode_tree_done(payload));
}

Task<guest::TreeDone> write_tree(io::Reactor& reactor, io::OffloadPool& pool, TreeTarget target,
                                 oci::TreeSource& source) {
  CO_TRY(const auto writer, co_await TreeWriter::open(reactor, target));
  TreeBatches batches{source, target.changes};
  for (;;) {
    CO_TRY(const auto frames, co_await pool.run([&batches] { return batches.next(); }));
    for (const auto& [kind, bytes] : frames) {
      CO_TRY_DO(co_await writer->send(kind, bytes));
    }
    if (batches.ended()) {
      co_return co_await writer->finish();
    }
  }
}

Task<guest::TreeDone> copy_tree(io::Reactor& reactor, TreeCopy from, TreeTarget target) {
  CO_TRY(const auto input, co_await GuestChannel::open(reactor, from.guest_socket));
  CO_TRY_DO(co_await input->send(guest::Kind::kReadTree,
                                 guest::encode(guest::PathRequest{from.path, ""})));
  CO_TRY(const auto output, co_await TreeWriter::open(reactor, target));
  std::uint64_t left = 0;
  std::uint64_t entries = 0;
  for (;;) {
    CO_TRY(const Frame frame, co_await input->receive(kGuestStallTimeout));
    if (frame.kind == guest::Kind::kEnd && left == 0) {
      co_return co_await output->finish();
    }
    if (frame.kind == guest::Kind::kData && !frame.payload.empty() &&
        frame.payload.size() <= left) {
      left -= frame.payload.size();
      CO_TRY_DO(co_await output->send(guest::Kind::kData, frame.payload));
      continue;
    }
    if (frame.kind != guest::Kind::kTreeEntry || left != 0 || ++entries > oci::kMaxEntries) {
      co_return guest_broke_protocol("a tree with wrong frames");
    }
    CO_TRY(auto entry, guest::decode_tree_entry(frame.payload));
    left = entry.size;
    if (!from.rename.empty()) {
      if (entries > 1) {
        co_return guest_broke_protocol("several entries for one file");
      }
      entry.path = from.rename;
    }
    change(entry, target.changes);
    const std::string encoded = guest::encode(entry);
    CO_TRY_DO(co_await output->send(guest::Kind::kTreeEntry, encoded));
  }
}

}  // namespace atl::control
