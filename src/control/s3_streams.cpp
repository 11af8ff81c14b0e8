// The streams of files in a bucket. Each keeps the bucket alive: a volume may be deleted meanwhile.
#include <algorithm>

#include "base/log.h"
#include "base/scope.h"
#include "base/strings.h"
#include "control/limits.h"
#include "control/s3_files.h"

namespace atl::control {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;

class ObjectFileReader final : public FileReader {
 public:
  ObjectFileReader(S3Place place, guest::FileInfo info, std::unique_ptr<s3::ObjectReader> reader)
      : FileReader(nullptr, std::move(info)),
        place_(std::move(place)),
        reader_(std::move(reader)) {}

  Task<std::string_view> next() override {
    buffer_.resize(kPieceBytes);
    CO_TRY(const std::size_t got, co_await reader_->read(buffer_));
    co_return std::string_view{buffer_}.substr(0, got);
  }

 private:
  S3Place place_;
  std::unique_ptr<s3::ObjectReader> reader_;
  std::string buffer_;
};

// Looked at first; fetched when it is read, and then only if it is still the same.
class RangeFileReader final : public FileReader {
 public:
  RangeFileReader(S3Place place, guest::FileInfo info, s3::ObjectInfo object, std::uint64_t offset,
                  std::uint64_t length)
      : FileReader(nullptr, std::move(info)),
        place_(std::move(place)),
        object_(std::move(object)),
        offset_(offset),
        length_(offset >= object_.size ? 0 : std::min(length, object_.size - offset)) {}

  Task<std::string_view> next() override {
    if (length_ == 0) {
      co_return std::string_view{};
    }
    if (!reader_) {
      CO_TRY(reader_,
             co_await place_.bucket->get(
                 object_.key, {.range = s3::Range{offset_, length_}, .if_match = object_.etag}));
      if (reader_->info().etag != object_.etag) {
        co_return fail(Code::kAborted, "the file changed while it was read");
      }
    }
    buffer_.resize(kPieceBytes);
    CO_TRY(const std::size_t got, co_await reader_->read(buffer_));
    co_return std::string_view{buffer_}.substr(0, got);
  }

 private:
  S3Place place_;
  s3::ObjectInfo object_;
  std::uint64_t offset_;
  std::uint64_t length_;
  std::unique_ptr<s3::ObjectReader> reader_;
  std::string buffer_;
};

class ObjectFileWriter final : public FileWriter {
 public:
  ObjectFileWriter(S3Place place, std::string path, std::unique_ptr<s3::ObjectWriter> writer)
      : FileWriter(nullptr),
        place_(std::move(place)),
        path_(std::move(path)),
        writer_(std::move(writer)) {}

  // Whoever went away without finishing leaves parts that somebody pays for.
  ~ObjectFileWriter() override {
    if (writer_ && place_.later) {
      place_.later(abandon(place_.bucket, std::move(writer_)));
    }
  }

  Task<> write(std::string_view bytes) override { co_return co_await writer_->write(bytes); }

  Task<guest::FileInfo> finish() override {
    auto object = co_await writer_->finish();
    if (!object && object.error().reason == "PreconditionFailed") {
      co_return fail(Code::kFailedPrecondition, concat(path_, " is not the expected version"),
                     "precondition_failed");
    }
    CO_TRY_DO(object);
    writer_.reset();
    if (place_.changed) {
      place_.changed();
    }
    co_return s3_file_info(place_, path_, *object);
  }

 private:
  // The bucket is held for the writer's sake.
  static Task<> abandon(std::shared_ptr<s3::Bucket> bucket,
                        std::unique_ptr<s3::ObjectWriter> writer) {
    auto abandoned = co_await shielded(writer->abandon());
    writer.reset();
    bucket.reset();
    co_return abandoned;
  }

  S3Place place_;
  std::string path_;
  std::unique_ptr<s3::ObjectWriter> writer_;
};

class ListingReader final : public DirectoryReader {
 public:
  ListingReader(S3Place place, std::string path, std::string prefix, s3::Listing first)
      : DirectoryReader(nullptr),
        place_(std::move(place)),
        path_(path == "/" ? "" : std::move(path)),
        prefix_(std::move(prefix)),
        page_(std::move(first)) {}

  Task<std::optional<guest::FileInfo>> next() override {
    for (;;) {
      while (directory_ < page_.prefixes.size()) {
        std::string_view key = page_.prefixes[directory_++];
        key.remove_suffix(key.ends_with('/') ? 1 : 0);
        const auto name = name_of(key);
        if (!name.empty()) {
          co_return s3_directory_info(place_, concat(path_, "/", name));
        }
      }
      while (object_ < page_.objects.size()) {
        const auto& object = page_.objects[object_++];
        const auto name = name_of(object.key);
        if (!name.empty()) {
          co_return s3_file_info(place_, concat(path_, "/", name), object);
        }
      }
      if (page_.next.empty()) {
        co_return std::optional<guest::FileInfo>{};
      }
      if (++pages_ == kMaxBucketPages) {
        co_return fail(Code::kResourceExhausted, "there is too much in this directory to list it");
      }
      CO_TRY(page_, co_await place_.bucket->list({.prefix = prefix_,
                                                  .by_directory = true,
                                                  .continuation = std::string{page_.next}}));
      directory_ = 0;
      object_ = 0;
    }
  }

 private:
  // Empty: no name of a path, so it cannot be asked for either.
  std::string_view name_of(std::string_view key) const {
    const auto name = key.substr(std::min(prefix_.size(), key.size()));
    const bool good =
        name != "." && name != ".." && !name.contains('/') && !name.contains('\0') && is_utf8(name);
    return good ? name : std::string_view{};
  }

  S3Place place_;
  std::string path_;
  std::string prefix_;
  s3::Listing page_;
  std::size_t pages_ = 1;
  std::size_t directory_ = 0;
  std::size_t object_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> make_s3_reader(S3Place place, guest::FileInfo info,
                                           std::unique_ptr<s3::ObjectReader> reader) {
  return std::make_unique<ObjectFileReader>(std::move(place), std::move(info), std::move(reader));
}

std::unique_ptr<FileReader> make_s3_range_reader(S3Place place, guest::FileInfo info,
                                                 s3::ObjectInfo object, std::uint64_t offset,
                                                 std::uint64_t length) {
  return std::make_unique<RangeFileReader>(std::move(place), std::move(info), std::move(object),
                                           offset, length);
}

std::unique_ptr<FileWriter> make_s3_writer(S3Place place, std::string path,
                                           std::unique_ptr<s3::ObjectWriter> writer) {
  return std::make_unique<ObjectFileWriter>(std::move(place), std::move(path), std::move(writer));
}

std::unique_ptr<DirectoryReader> make_s3_directory(S3Place place, std::string path,
                                                   std::string prefix, s3::Listing first) {
  return std::make_unique<ListingReader>(std::move(place), std::move(path), std::move(prefix),
                                         std::move(first));
}

}  // namespace atl::control
