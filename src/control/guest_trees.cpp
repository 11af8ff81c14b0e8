#include "control/guest_trees.h"

#include <utility>
#include <vector>

#include "base/strings.h"
#include "control/limits.h"

namespace atl::control {
namespace {

constexpr std::size_t kBatchBytes = 1U << 20;
constexpr std::size_t kPieceBytes = 128 * 1024;

using Frames = std::vector<std::pair<guest::Kind, std::string>>;

guest::FileType wire_type(oci::EntryType type) {
  switch (type) {
    case oci::EntryType::kDirectory:
      return guest::FileType::kDirectory;
    case oci::EntryType::kSymlink:
      return guest::FileType::kSymlink;
    case oci::EntryType::kHardlink:
      return guest::FileType::kHardlink;
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
  change(entry, changes);
  return entry;
}

// The next frames of a source; none at its end. Runs on a thread of the pool.
class Batches {
 public:
  Batches(oci::TreeSource& source, const TreeChanges& changes)
      : source_(source), changes_(changes) {}

  Result<Frames> next() {
    Frames frames;
    std::size_t bytes = 0;
    while (bytes < kBatchBytes) {
      if (left_ == 0) {
        TRY(const auto entry, source_.next());
        if (!entry) {
          return frames;
        }
        const guest::TreeEntry wire = to_wire(*entry, changes_);
        left_ = wire.size;
        frames.emplace_back(guest::Kind::kTreeEntry, guest::encode(wire));
      } else {
        std::string piece(std::min<std::uint64_t>(left_, kPieceBytes), '\0');
        TRY(const std::size_t got, source_.read(piece));
        if (got == 0) {
          return fail(Code::kDataLoss, "a file is shorter than it said", "bad_archive");
        }
        piece.resize(got);
        left_ -= got;
        frames.emplace_back(guest::Kind::kData, std::move(piece));
      }
      bytes += frames.back().second.size();
    }
    return frames;
  }

 private:
  oci::TreeSource& source_;
  const TreeChanges& changes_;
  std::uint64_t left_ = 0;
};

// A guest that refuses says why and closes: the reason is worth more than the broken pipe.
Task<> send_or_learn_why(GuestChannel& channel, guest::Kind kind, std::string_view bytes) {
  auto sent = co_await channel.send_bytes(kind, bytes);
  if (sent) {
    co_return ok();
  }
  auto answer = co_await channel.receive(kGuestReasonTimeout);
  co_return fail(answer ? std::move(sent).error() : std::move(answer).error());
}

Task<std::unique_ptr<GuestChannel>> open_target(io::Reactor& reactor, const TreeTarget& target) {
  CO_TRY(auto channel, co_await GuestChannel::open(reactor, target.guest_socket));
  CO_TRY_DO(co_await channel->send(guest::Kind::kWriteTree,
                                   guest::encode(guest::PathRequest{target.path, ""})));
  co_return std::move(channel);
}

Task<guest::TreeDone> finish(GuestChannel& channel) {
  CO_TRY_DO(co_await send_or_learn_why(channel, guest::Kind::kEnd, {}));
  CO_TRY(const auto payload, co_await channel.expect(guest::Kind::kTreeDone, kTreeFinishTimeout));
  co_return guest::decode_tree_done(payload);
}

}  // namespace

Task<guest::TreeDone> write_tree(io::Reactor& reactor, io::OffloadPool& pool, TreeTarget target,
                                 oci::TreeSource& source) {
  CO_TRY(const auto channel, co_await open_target(reactor, target));
  Batches batches{source, target.changes};
  for (;;) {
    CO_TRY(const Frames frames, co_await pool.run([&batches] { return batches.next(); }));
    if (frames.empty()) {
      co_return co_await finish(*channel);
    }
    for (const auto& [kind, bytes] : frames) {
      CO_TRY_DO(co_await send_or_learn_why(*channel, kind, bytes));
    }
  }
}

Task<guest::TreeDone> copy_tree(io::Reactor& reactor, TreeCopy from, TreeTarget target) {
  CO_TRY(const auto input, co_await GuestChannel::open(reactor, from.guest_socket));
  CO_TRY_DO(co_await input->send(guest::Kind::kReadTree,
                                 guest::encode(guest::PathRequest{from.path, ""})));
  CO_TRY(const auto output, co_await open_target(reactor, target));
  std::uint64_t left = 0;
  std::uint64_t entries = 0;
  for (;;) {
    CO_TRY(const Frame frame, co_await input->receive(kGuestStallTimeout));
    if (frame.kind == guest::Kind::kEnd && left == 0) {
      co_return co_await finish(*output);
    }
    if (frame.kind == guest::Kind::kData && frame.payload.size() <= left) {
      left -= frame.payload.size();
      CO_TRY_DO(co_await send_or_learn_why(*output, guest::Kind::kData, frame.payload));
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
    CO_TRY_DO(co_await send_or_learn_why(*output, guest::Kind::kTreeEntry, guest::encode(entry)));
  }
}

}  // namespace atl::control
