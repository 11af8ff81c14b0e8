// The messages of envd's two services, as tables that both codecs read.
//
// Between a codec and a handler a message is a Json value in one canonical form: members have their
// lowerCamelCase names, bytes are strings of raw bytes, integers are integers, enums are the names
// of their values, a timestamp is its nanoseconds since 1970. So a handler never knows which codec
// its caller speaks, and a field is written down once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace atl::service::e2b::envd {

enum class FieldKind : std::uint8_t {
  kString,
  kBytes,
  kBool,
  kUint32,
  kSint32,  // zigzag
  kInt64,
  kEnum,
  kMessage,
  kStringMap,
  kTimestamp,
};

struct EnumValue {
  std::int32_t number;
  std::string_view name;
};

struct Message;

struct Field {
  std::uint32_t number;
  std::string_view name;
  FieldKind kind;
  bool repeated = false;
  const Message* message = nullptr;     // of kMessage
  std::span<const EnumValue> values{};  // of kEnum
};

struct Message {
  std::span<const Field> fields;
};

// process.Process
extern const Message kEmpty;
extern const Message kProcessListResponse;
extern const Message kStartRequest;
extern const Message kProcessEventResponse;  // of Start and of Connect
extern const Message kProcessSelection;      // of Connect and of CloseStdin
extern const Message kUpdateRequest;
extern const Message kStreamInputRequest;
extern const Message kSendInputRequest;
extern const Message kSendSignalRequest;
// filesystem.Filesystem
extern const Message kPathRequest;  // of Stat, MakeDir and Remove
extern const Message kEntryResponse;
extern const Message kMoveRequest;
extern const Message kListDirRequest;
extern const Message kListDirResponse;
extern const Message kWatchRequest;  // of WatchDir and CreateWatcher
extern const Message kWatchDirResponse;
extern const Message kWatcherId;  // of GetWatcherEvents and RemoveWatcher; answer of CreateWatcher
extern const Message kWatcherEventsResponse;

}  // namespace atl::service::e2b::envd
