#include "control/diff_stream.h"

#include <utility>

#include "base/strings.h"
#include "control/limits.h"
#include "control/tree_archives.h"

namespace atl::control {
namespace {

using guest::ChangeType;
using guest::Kind;

constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;
constexpr std::size_t kBatchBytes = std::size_t{1024} * 1024;  // compressed in one go
constexpr std::string_view kWhiteout = ".wh.";

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::unexpected<Error> no_layer_name(std::string_view path) {
  return fail(Code::kFailedPrecondition,
              concat("a layer cannot hold the name \"", to_valid_utf8(path),
                     "\": it would mean that something is removed, or is too long to be"),
              "unrepresentable_name");
}

}  // namespace

Result<std::string> whiteout_path(std::string_view path) {
  const std::string_view name = name_of(path);
  if (name.starts_with(kWhiteout) || name.size() + kWhiteout.size() > guest::kMaxNameBytes) {
    return no_layer_name(path);
  }
  return concat(path.substr(0, path.size() - name.size()), kWhiteout, name);
}

Task<std::unique_ptr<DiffStream>> DiffStream::open(io::Reactor& reactor, std::string guest_socket,
                                                   guest::DiffRequest request) {
  CO_TRY(auto channel, co_await GuestChannel::open(reactor, std::move(guest_socket)));
  CO_TRY_DO(co_await channel->send(Kind::kDiff, guest::encode(request)));
  co_return std::make_unique<DiffStream>(std::move(channel), request.contents);
}

Task<DiffStream::Item> DiffStream::next() {
  for (;;) {
    CO_TRY(const Frame frame, co_await channel_->receive(kGuestStallTimeout));
    if (frame.kind == Kind::kData && !frame.payload.empty() && frame.payload.size() <= left_) {
      left_ -= frame.payload.size();
      co_return Item{frame.kind, {}, std::string{frame.payload}};
    }
    if (left_ == 0 && frame.kind == Kind::kSynced) {
      continue;  // it is still at it
    }
    if (left_ == 0 && frame.kind == Kind::kEnd) {
      co_return Item{};
    }
    if (left_ != 0 || frame.kind != Kind::kChange || ++changes_ > guest::kMaxTreeEntries) {
      co_return guest_broke_protocol("a comparison with wrong frames");
    }
    CO_TRY(auto change, from_guest(guest::decode_change(frame.payload)));
    if (contents_ && change.change != ChangeType::kRemoved &&
        change.entry.type == guest::FileType::kFile) {
      left_ = change.entry.size;
      if (left_ > kMaxImageBytes - total_) {
        co_return fail(
            Code::kResourceExhausted,
            concat("the files are larger than ", format_quantity(kMaxImageBytes), " together"),
            "archive_too_large");
      }
      total_ += left_;
    }
    co_return Item{frame.kind, std::move(change), {}};
  }
}

Result<> DiffArchive::write_change(const guest::Change& change) {
  if (change.change == ChangeType::kRemoved) {
    TRY(std::string path, whiteout_path(change.entry.path));
    return writer_.begin({.path = std::move(path), .mode = 0});
  }
  if (name_of(change.entry.path).starts_with(kWhiteout)) {
    return no_layer_name(change.entry.path);
  }
  if (change.entry.type == guest::FileType::kOther) {
    return {};
  }
  TRY(const auto entry, to_archive_entry(change.entry));
  return writer_.begin(entry);
}

Result<> DiffArchive::write(const DiffStream::Item& item) {
  if (item.kind == Kind::kData) {
    return writer_.write(item.bytes);
  }
  if (item.kind == Kind::kEnd) {
    ended_ = true;
    return writer_.finish();
  }
  return write_change(item.change);
}

Task<std::string> DiffArchive::next() {
  while (writer_.pending_bytes() < kPieceBytes && !ended_) {
    std::vector<DiffStream::Item> items;
    std::size_t bytes = 0;
    const std::size_t enough = format_ == oci::ArchiveFormat::kTar ? 1 : kBatchBytes;
    while (bytes < enough) {
      CO_TRY(auto item, co_await stream_->next());
      bytes += item.kind == Kind::kEnd ? enough : item.bytes.size() + sizeof(item);
      items.push_back(std::move(item));
    }
    const auto write_all = [this, &items]() -> Result<> {
      for (const DiffStream::Item& item : items) {
        TRY_DO(write(item));
      }
      return {};
    };
    if (format_ == oci::ArchiveFormat::kTar) {
      CO_TRY_DO(write_all());
    } else {
      CO_TRY_DO(co_await pool_.run(write_all));
    }
  }
  co_return writer_.take();
}

}  // namespace atl::control
