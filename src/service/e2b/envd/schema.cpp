#include "service/e2b/envd/schema.h"

namespace atl::service::e2b::envd {
namespace {

using enum FieldKind;

constexpr Field one(std::uint32_t number, std::string_view name, FieldKind kind) {
  return {.number = number, .name = name, .kind = kind};
}
constexpr Field of(std::uint32_t number, std::string_view name, const Message& message) {
  return {.number = number, .name = name, .kind = kMessage, .message = &message};
}
constexpr Field many(Field field) {
  field.repeated = true;
  return field;
}
constexpr Field choice(std::uint32_t number, std::string_view name,
                       std::span<const EnumValue> values) {
  return {.number = number, .name = name, .kind = kEnum, .values = values};
}

// --- process ---------------------------------------------------------------------------------

constexpr Field kSizeFields[] = {one(1, "cols", kUint32), one(2, "rows", kUint32)};
constexpr Message kSize{kSizeFields};
constexpr Field kPtyFields[] = {of(1, "size", kSize)};
constexpr Message kPty{kPtyFields};
constexpr Field kConfigFields[] = {one(1, "cmd", kString), many(one(2, "args", kString)),
                                   one(3, "envs", kStringMap), one(4, "cwd", kString)};
constexpr Message kConfig{kConfigFields};
constexpr Field kInfoFields[] = {of(1, "config", kConfig), one(2, "pid", kUint32),
                                 one(3, "tag", kString)};
constexpr Message kInfo{kInfoFields};
constexpr Field kSelectorFields[] = {one(1, "pid", kUint32), one(2, "tag", kString)};
constexpr Message kSelector{kSelectorFields};
constexpr Field kInputFields[] = {one(1, "stdin", kBytes), one(2, "pty", kBytes)};
constexpr Message kInput{kInputFields};
constexpr EnumValue kSignals[] = {
    {0, "SIGNAL_UNSPECIFIED"}, {9, "SIGNAL_SIGKILL"}, {15, "SIGNAL_SIGTERM"}};

constexpr Field kStartEventFields[] = {one(1, "pid", kUint32)};
constexpr Message kStartEvent{kStartEventFields};
constexpr Field kDataEventFields[] = {one(1, "stdout", kBytes), one(2, "stderr", kBytes),
                                      one(3, "pty", kBytes)};
constexpr Message kDataEvent{kDataEventFields};
constexpr Field kEndEventFields[] = {one(1, "exitCode", kSint32), one(2, "exited", kBool),
                                     one(3, "status", kString), one(4, "error", kString)};
constexpr Message kEndEvent{kEndEventFields};
constexpr Message kNothing{};
constexpr Field kEventFields[] = {of(1, "start", kStartEvent), of(2, "data", kDataEvent),
                                  of(3, "end", kEndEvent), of(4, "keepalive", kNothing)};
constexpr Message kEvent{kEventFields};

constexpr Field kListResponseFields[] = {many(of(1, "processes", kInfo))};
constexpr Field kStartFields[] = {of(1, "process", kConfig), of(2, "pty", kPty),
                                  one(3, "tag", kString), one(4, "stdin", kBool)};
constexpr Field kEventResponseFields[] = {of(1, "event", kEvent)};
constexpr Field kSelectionFields[] = {of(1, "process", kSelector)};
constexpr Message kSelectionMessage{kSelectionFields};
constexpr Field kUpdateFields[] = {of(1, "process", kSelector), of(2, "pty", kPty)};
constexpr Field kStreamDataFields[] = {of(2, "input", kInput)};
constexpr Message kStreamData{kStreamDataFields};
constexpr Field kStreamInputFields[] = {of(1, "start", kSelectionMessage),
                                        of(2, "data", kStreamData), of(3, "keepalive", kNothing)};
constexpr Field kSendInputFields[] = {of(1, "process", kSelector), of(2, "input", kInput)};
constexpr Field kSendSignalFields[] = {of(1, "process", kSelector), choice(2, "signal", kSignals)};

// --- filesystem ------------------------------------------------------------------------------

constexpr EnumValue kFileTypes[] = {{0, "FILE_TYPE_UNSPECIFIED"},
                                    {1, "FILE_TYPE_FILE"},
                                    {2, "FILE_TYPE_DIRECTORY"},
                                    {3, "FILE_TYPE_SYMLINK"}};
constexpr EnumValue kEventTypes[] = {{0, "EVENT_TYPE_UNSPECIFIED"}, {1, "EVENT_TYPE_CREATE"},
                                     {2, "EVENT_TYPE_WRITE"},       {3, "EVENT_TYPE_REMOVE"},
                                     {4, "EVENT_TYPE_RENAME"},      {5, "EVENT_TYPE_CHMOD"}};

constexpr Field kEntryFields[] = {one(1, "name", kString),
                                  choice(2, "type", kFileTypes),
                                  one(3, "path", kString),
                                  one(4, "size", kInt64),
                                  one(5, "mode", kUint32),
                                  one(6, "permissions", kString),
                                  one(7, "owner", kString),
                                  one(8, "group", kString),
                                  one(9, "modifiedTime", kTimestamp),
                                  one(10, "symlinkTarget", kString),
                                  one(11, "metadata", kStringMap),
                                  one(12, "isSymlink", kBool)};
constexpr Message kEntry{kEntryFields};
constexpr Field kFileEventFields[] = {one(1, "name", kString), choice(2, "type", kEventTypes),
                                      of(3, "entry", kEntry)};
constexpr Message kFileEvent{kFileEventFields};

constexpr Field kPathFields[] = {one(1, "path", kString)};
constexpr Field kEntryResponseFields[] = {of(1, "entry", kEntry)};
constexpr Field kMoveFields[] = {one(1, "source", kString), one(2, "destination", kString)};
constexpr Field kListDirFields[] = {one(1, "path", kString), one(2, "depth", kUint32)};
constexpr Field kListDirResponseFields[] = {many(of(1, "entries", kEntry))};
constexpr Field kWatchFields[] = {one(1, "path", kString), one(2, "recursive", kBool),
                                  one(3, "includeEntry", kBool),
                                  one(4, "allowNetworkMounts", kBool)};
constexpr Field kWatchDirFields[] = {of(1, "start", kNothing), of(2, "filesystem", kFileEvent),
                                     of(3, "keepalive", kNothing)};
constexpr Field kWatcherIdFields[] = {one(1, "watcherId", kString)};
constexpr Field kWatcherEventsFields[] = {many(of(1, "events", kFileEvent))};

}  // namespace

constexpr Message kEmpty{};
constexpr Message kProcessListResponse{kListResponseFields};
constexpr Message kStartRequest{kStartFields};
constexpr Message kProcessEventResponse{kEventResponseFields};
constexpr Message kProcessSelection{kSelectionFields};
constexpr Message kUpdateRequest{kUpdateFields};
constexpr Message kStreamInputRequest{kStreamInputFields};
constexpr Message kSendInputRequest{kSendInputFields};
constexpr Message kSendSignalRequest{kSendSignalFields};
constexpr Message kPathRequest{kPathFields};
constexpr Message kEntryResponse{kEntryResponseFields};
constexpr Message kMoveRequest{kMoveFields};
constexpr Message kListDirRequest{kListDirFields};
constexpr Message kListDirResponse{kListDirResponseFields};
constexpr Message kWatchRequest{kWatchFields};
constexpr Message kWatchDirResponse{kWatchDirFields};
constexpr Message kWatcherId{kWatcherIdFields};
constexpr Message kWatcherEventsResponse{kWatcherEventsFields};

}  // namespace atl::service::e2b::envd
