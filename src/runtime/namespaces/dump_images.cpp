#include "runtime/namespaces/dump_images.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/namespaces/protobuf_wire.h"

namespace atl::runtime::namespaces {
namespace {

namespace fs = std::filesystem;
using Fields = std::vector<ProtobufField>;
using Edit = std::function<Result<>(Fields& message)>;

constexpr std::size_t kMaxEditedBytes = 256U << 20;
// An image begins with one or two magic numbers, then each message with its size.
constexpr std::size_t kOldHeadBytes = 4;  // the inventory
constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kSizeBytes = 4;
constexpr std::string_view kWarmImageName = "atoll-image";  // guest/warm_memory.cpp makes it

// Fields of criu's messages, as its images/*.proto number them.
namespace field {
constexpr std::uint32_t kInventoryRootIds = 3;
constexpr std::uint32_t kFirstSharedNamespace = 6;  // net; 5 is pid
constexpr std::uint32_t kLastSharedNamespace = 12;  // time
constexpr std::uint32_t kCoreThread = 5;
constexpr std::uint32_t kThreadCgroups = 16;
constexpr std::uint32_t kFileRegular = 3;
constexpr std::uint32_t kRegularMount = 7;
constexpr std::uint32_t kFileInotify = 13;
constexpr std::uint32_t kFileFanotify = 14;
constexpr std::uint32_t kFileUnixSocket = 16;
constexpr std::uint32_t kUnixSocketMount = 17;
constexpr std::uint32_t kMemoryFileName = 1;
}  // namespace field

std::uint32_t load_size(std::string_view bytes) {
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  return size;
}

// Applies `edit` to the first message of an image, or to all. What follows the first one may be in
// another form and stays as it is.
Result<> edit_image(const std::string& path, std::size_t head_bytes, bool all, const Edit& edit) {
  TRY(const std::string image, read_file(path, kMaxEditedBytes));
  std::string out = image.substr(0, head_bytes);
  std::size_t at = head_bytes;
  do {
    if (at + kSizeBytes > image.size() ||
        load_size(std::string_view{image}.substr(at)) > image.size() - at - kSizeBytes) {
      return fail(Code::kDataLoss, concat("image ", path, " is cut short"));
    }
    const std::uint32_t size = load_size(std::string_view{image}.substr(at));
    TRY(Fields message, parse_protobuf(std::string_view{image}.substr(at + kSizeBytes, size)));
    TRY_DO(edit(message));
    const std::string bytes = format_protobuf(message);
    const auto new_size = static_cast<std::uint32_t>(bytes.size());
    out.append(reinterpret_cast<const char*>(&new_size), sizeof new_size);
    out += bytes;
    at += kSizeBytes + size;
  } while (all && at < image.size());
  return replace_file(path, out + image.substr(at), {});
}

// Takes a field out of each submessage `outer`.
Result<> drop_inner(Fields& message, std::uint32_t outer, std::uint32_t inner) {
  for (ProtobufField& part : message) {
    if (part.number == outer) {
      TRY(Fields fields, parse_protobuf(part.bytes));
      std::erase_if(fields, [&](const ProtobufField& each) { return each.number == inner; });
      part.bytes = format_protobuf(fields);
    }
  }
  return {};
}

// "The namespaces criu ran in" become those of the tree's first process, all but pid.
Result<> share_namespaces(const std::string& directory) {
  TRY(const std::string ids_image, read_file(directory + "/ids-1.img", kMaxEditedBytes));
  if (ids_image.size() < kHeadBytes + kSizeBytes) {
    return fail(Code::kDataLoss, "the image of the first process's namespaces is cut short");
  }
  TRY(const Fields own,
      parse_protobuf(std::string_view{ids_image}.substr(
          kHeadBytes + kSizeBytes, load_size(std::string_view{ids_image}.substr(kHeadBytes)))));
  const auto edit = [&own](Fields& inventory) -> Result<> {
    for (ProtobufField& part : inventory) {
      if (part.number != field::kInventoryRootIds) {
        continue;
      }
      TRY(Fields ids, parse_protobuf(part.bytes));
      for (ProtobufField& id : ids) {
        const auto same = std::ranges::find(own, id.number, &ProtobufField::number);
        if (same != own.end() && id.number >= field::kFirstSharedNamespace &&
            id.number <= field::kLastSharedNamespace) {
          id = *same;
        }
      }
      part.bytes = format_protobuf(ids);
    }
    return {};
  };
  return edit_image(directory + "/inventory.img", kOldHeadBytes, false, edit);
}

Result<> edit_file_entry(Fields& file) {
  for (const ProtobufField& part : file) {
    if (part.number == field::kFileInotify || part.number == field::kFileFanotify) {
      return fail(Code::kFailedPrecondition,
                  "a process watches files (inotify), which would come back on other files");
    }
  }
  TRY_DO(drop_inner(file, field::kFileRegular, field::kRegularMount));
  return drop_inner(file, field::kFileUnixSocket, field::kUnixSocketMount);
}

// What was forked warm maps the image it was made from, sealed and shared with its siblings. criu
// would write it down, and could not put the seals and the mappings together again.
Result<> refuse_shared_images(const std::string& directory) {
  const std::string path = directory + "/memfd.img";
  std::error_code error;
  if (!fs::exists(path, error)) {
    return {};
  }
  return edit_image(path, kHeadBytes, true, [](Fields& file) -> Result<> {
    for (const ProtobufField& part : file) {
      if (part.number == field::kMemoryFileName && part.bytes.contains(kWarmImageName)) {
        return fail(Code::kFailedPrecondition,
                    "an interpreter shares memory with those it was forked with", "not_dumpable");
      }
    }
    return {};
  });
}

}  // namespace

Result<std::uint64_t> prepare_images(const std::string& directory) {
  TRY_DO(edit_image(directory + "/files.img", kHeadBytes, true, edit_file_entry));
  TRY_DO(share_namespaces(directory));
  TRY_DO(refuse_shared_images(directory));
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at{directory, error}, end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    // Objects of the ipc namespace, which is one that criu does not make here.
    if (name.starts_with("ipcns-") && !name.starts_with("ipcns-var")) {
      return fail(Code::kFailedPrecondition,
                  "a process uses System V shared memory, semaphores or message queues",
                  "not_dumpable");
    }
    if (name.starts_with("core-") && name.ends_with(".img")) {
      TRY_DO(edit_image(at->path(), kHeadBytes, false, [](Fields& core) {
        return drop_inner(core, field::kCoreThread, field::kThreadCgroups);
      }));
    }
    bytes += at->file_size(error);
  }
  if (error) {
    return fail(Code::kInternal, concat("reading ", directory, ": ", error.message()));
  }
  return bytes;
}

}  // namespace atl::runtime::namespaces
