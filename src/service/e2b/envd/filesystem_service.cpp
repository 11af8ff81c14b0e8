#include "service/e2b/envd/filesystem_service.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "service/e2b/envd/entry_text.h"
#include "service/e2b/envd/sandbox_path.h"

namespace atl::service::e2b::envd {
namespace {

using control::Files;
using guest::FileType;

constexpr std::size_t kListPieceBytes = std::size_t{32} * 1024;

bool is_directory(const guest::FileInfo& info) {
  return info.type == FileType::kDirectory || (info.type == FileType::kSymlink && info.details &&
                                               info.details->resolved_type == FileType::kDirectory);
}

// What the file of an event is now; null when there is none any more.
Task<Json> find_entry(Files& files, std::string path, std::string user) {
  const auto info =
      co_await files.stat({.path = std::move(path), .user = std::move(user), .details = true});
  if (!info && is_sandbox_gone(info.error())) {
    co_return fail(info.error());
  }
  co_return info ? entry_json(*info) : Json{};
}

Task<> send_events(Files& files, control::FileWatch& watch, AnswerStream& answers, std::string root,
                   std::string user, bool with_entry) {
  for (;;) {
    CO_TRY(auto event, co_await watch.next());
    if (event.event == guest::FileEventType::kOverflow) {
      co_return co_await answers.end_with(
          {Code::kDataLoss, "watcher error: changes came faster than they could be told"});
    }
    if (is_passing(event)) {
      continue;
    }
    Json json = file_event_json(event, root);
    if (with_entry && has_entry(event.event)) {
      CO_TRY(auto entry, co_await find_entry(files, std::move(event.path), user));
      if (!entry.is_null()) {
        json.set("entry", std::move(entry));
      }
    }
    CO_TRY_DO(co_await answers.send(Json::object({{"filesystem", std::move(json)}})));
  }
}

Task<> tell_changes(Files& files, control::FileWatch& watch, AnswerStream& answers,
                    std::string root, std::string user, bool with_entry, Duration interval) {
  CO_TRY_DO(co_await answers.send(Json::object({{"start", Json::object()}})));
  Scope beside{co_await current_context()};
  beside.on_error([](const char*, const Error&) {});  // the sender will notice
  beside.spawn("keepalive",
               answers.keep_alive(interval, Json::object({{"keepalive", Json::object()}})));
  auto sent =
      co_await send_events(files, watch, answers, std::move(root), std::move(user), with_entry);
  (void)co_await beside.cancel_and_join();
  co_return std::move(sent);
}

// One entry of a listing as a piece of the whole answer.
std::string list_piece(const guest::FileInfo& info, Codec codec, bool first) {
  Json::Array one;
  one.push_back(entry_json(info));
  const Json answer = Json::object({{"entries", Json{std::move(one)}}});
  std::string text = encode_message(kListDirResponse, codec, answer);
  if (codec == Codec::kBinary) {
    return text;  // repeated fields are put together by putting them one after the other
  }
  constexpr std::string_view kHead = "{\"entries\":[";
  return concat(first ? "" : ",",
                std::string_view{text}.substr(kHead.size(), text.size() - kHead.size() - 2));
}

}  // namespace

std::string acting_user(std::string_view user) {
  return concat("owner:", user);
}

Error file_call_error(Error error, std::string_view user, std::string_view path) {
  if (error.reason == "user_not_found" || error.reason == "bad_user") {
    return {Code::kUnauthenticated, concat("invalid username: '", user, "'")};
  }
  if (error.reason == "file_not_found") {
    return {Code::kNotFound, concat("path '", path, "' does not exist"), error.reason};
  }
  if (error.reason == "path_not_directory") {
    return {Code::kInvalidArgument, concat("path '", path, "' is not a directory"), error.reason};
  }
  if (error.reason == "no_space") {
    return {Code::kResourceExhausted, "not enough disk space available", error.reason};
  }
  return error;
}

const FilesystemService::UnaryMethod FilesystemService::kUnaryMethods[] = {
    {"Stat", &kPathRequest, &kEntryResponse, &FilesystemService::stat},
    {"MakeDir", &kPathRequest, &kEntryResponse, &FilesystemService::make_directory},
    {"Move", &kMoveRequest, &kEntryResponse, &FilesystemService::move},
    {"Remove", &kPathRequest, &kEmpty, &FilesystemService::remove},
    {"CreateWatcher", &kWatchRequest, &kWatcherId, &FilesystemService::create_watcher},
    {"GetWatcherEvents", &kWatcherId, &kWatcherEventsResponse, &FilesystemService::watcher_events},
    {"RemoveWatcher", &kWatcherId, &kEmpty, &FilesystemService::remove_watcher},
};

Task<> FilesystemService::serve(E2bExchange& exchange, const SandboxTarget& target,
                                CallFormat format, std::string method) {
  auto caller = read_caller(exchange.request(), target);
  if (!caller) {
    co_return co_await respond_error(exchange, format, std::move(caller).error());
  }
  const auto unary = std::ranges::find(kUnaryMethods, method, &UnaryMethod::name);
  const bool is_unary = unary != std::end(kUnaryMethods);
  if (!is_unary && method != "ListDir" && method != "WatchDir") {
    co_return co_await respond_error(
        exchange, format,
        {Code::kUnimplemented,
         concat("filesystem.Filesystem has no method ", to_valid_utf8(method))});
  }
  const Message& message = is_unary              ? *unary->request
                           : method == "ListDir" ? kListDirRequest
                                                 : kWatchRequest;
  auto request = co_await read_request(exchange, format, message);
  if (!request) {
    co_return co_await respond_error(exchange, format, std::move(request).error());
  }
  if (is_unary) {
    auto answer = co_await (this->*unary->handler)(*std::move(caller), *std::move(request));
    if (!answer) {
      co_return co_await respond_error(exchange, format, std::move(answer).error());
    }
    co_return co_await respond_message(exchange, format, *unary->response, *std::move(answer));
  }
  format.streaming = format.streaming || method == "WatchDir";
  Task<> serving = method == "ListDir"
                       ? list(exchange, *std::move(caller), *std::move(request), format)
                       : watch(exchange, *std::move(caller), *std::move(request), format.codec);
  auto served = co_await std::move(serving);
  if (!served && !exchange.started()) {
    co_return co_await respond_error(exchange, format, std::move(served).error());
  }
  co_return std::move(served);
}

std::string FilesystemService::directory(const Caller& caller) const {
  return process_directory(
      {}, places_.defaults({caller.sandbox.team_id, caller.sandbox.sandbox_id}).cwd);
}

std::string FilesystemService::path_of(const Caller& caller, const Json& request,
                                       std::string_view name) const {
  return guest_path(text_of(request, name), directory(caller));
}

Task<std::unique_ptr<Files>> FilesystemService::open(const Caller& caller) {
  return places_.open({caller.sandbox.team_id, caller.sandbox.sandbox_id});
}

Task<guest::FileInfo> FilesystemService::describe(Files& files, const Caller& caller,
                                                  std::string path) {
  auto info =
      co_await files.stat({.path = path, .user = acting_user(caller.user), .details = true});
  if (!info) {
    co_return fail(file_call_error(std::move(info).error(), caller.user, path));
  }
  co_return std::move(info);
}

Task<Json> FilesystemService::stat(Caller caller, Json request) {
  CO_TRY(const auto files, co_await open(caller));
  CO_TRY(const auto info, co_await describe(*files, caller, path_of(caller, request, "path")));
  co_return Json::object({{"entry", entry_json(info)}});
}

Task<Json> FilesystemService::make_directory(Caller caller, Json request) {
  CO_TRY(const auto files, co_await open(caller));
  const std::string path = path_of(caller, request, "path");
  const std::string user = acting_user(caller.user);
  // Without parents first: only so one learns that it is there already.
  auto made = co_await files->make_directory({.path = path, .user = user});
  if (!made && made.error().reason == "file_not_found") {
    made = co_await files->make_directory({.path = path, .user = user, .make_parents = true});
  }
  if (!made && made.error().reason == "path_exists") {
    CO_TRY(const auto existing, co_await describe(*files, caller, path));
    co_return is_directory(existing)
        ? fail(Code::kAlreadyExists, concat("directory already exists: ", path))
        : fail(Code::kInvalidArgument,
               concat("path already exists but it is not a directory: ", path));
  }
  if (!made) {
    co_return fail(file_call_error(std::move(made).error(), caller.user, path));
  }
  CO_TRY(const auto info, co_await describe(*files, caller, path));
  co_return Json::object({{"entry", entry_json(info)}});
}

Task<Json> FilesystemService::move(Caller caller, Json request) {
  CO_TRY(const auto files, co_await open(caller));
  const std::string source = path_of(caller, request, "source");
  const std::string destination = path_of(caller, request, "destination");
  auto moved = co_await files->move(
      {.source = source, .destination = destination, .user = acting_user(caller.user)});
  if (!moved) {
    co_return fail(file_call_error(std::move(moved).error(), caller.user, source));
  }
  CO_TRY(const auto info, co_await describe(*files, caller, destination));
  co_return Json::object({{"entry", entry_json(info)}});
}

Task<Json> FilesystemService::remove(Caller caller, Json request) {
  CO_TRY(const auto files, co_await open(caller));
  const std::string path = path_of(caller, request, "path");
  auto removed = co_await files->remove({.path = path, .user = acting_user(caller.user)});
  if (!removed) {
    co_return fail(file_call_error(std::move(removed).error(), caller.user, path));
  }
  co_return Json::object();
}

// In pieces, because how many entries there are is the sandbox's choice. What fails before the
// first is an answer of its own; later the connection breaks off.
Task<> FilesystemService::list(E2bExchange& exchange, Caller caller, Json request,
                               CallFormat format) {
  if (format.streaming) {
    co_return fail(Code::kInvalidArgument, "ListDir is no stream");
  }
  CO_TRY(const auto files, co_await open(caller));
  const std::string path = path_of(caller, request, "path");
  const Json* depth = request.find("depth");
  const auto levels = depth == nullptr
                          ? 1
                          : std::clamp<std::int64_t>(*depth->as_integer(), 1, guest::kMaxTreeDepth);
  const auto reader = co_await files->read_directory({.path = path,
                                                      .user = acting_user(caller.user),
                                                      .details = true,
                                                      .depth = static_cast<std::uint32_t>(levels)});
  if (!reader) {
    co_return fail(file_call_error(reader.error(), caller.user, path));
  }
  auto file = co_await (*reader)->next();
  if (!file) {
    co_return fail(file_call_error(std::move(file).error(), caller.user, path));
  }
  const bool json = format.codec == Codec::kJson;
  CO_TRY_DO(co_await exchange.start(
      200, {{"Content-Type", json ? "application/json" : "application/proto"}}, std::nullopt));
  std::string text = json ? "{\"entries\":[" : "";
  for (bool first = true; file && *file; first = false) {
    text += list_piece(**file, format.codec, first);
    if (text.size() >= kListPieceBytes) {
      CO_TRY_DO(co_await exchange.write(text));
      text.clear();
    }
    file = co_await (*reader)->next();
  }
  if (!file) {
    co_return fail(std::move(file).error());
  }
  text += json ? "]}" : "";
  CO_TRY_DO(co_await exchange.write(text));
  co_return co_await exchange.finish();
}

Task<FilesystemService::Watched> FilesystemService::begin_watch(Caller caller, Json request) {
  Watched watched{.user = acting_user(caller.user)};
  CO_TRY(watched.files, co_await open(caller));
  CO_TRY(const auto info,
         co_await describe(*watched.files, caller, path_of(caller, request, "path")));
  if (!is_directory(info)) {
    co_return fail(Code::kInvalidArgument, concat("path ", info.path, " not a directory"));
  }
  watched.root = info.path;
  auto watch = co_await watched.files->watch(
      {.path = watched.root, .user = watched.user, .recursive = flag_of(request, "recursive")});
  if (!watch) {
    co_return fail(file_call_error(std::move(watch).error(), caller.user, watched.root));
  }
  watched.watch = *std::move(watch);
  co_return std::move(watched);
}

Task<> FilesystemService::watch(E2bExchange& exchange, Caller caller, Json request, Codec codec) {
  CO_TRY(const auto watched, co_await begin_watch(caller, request));
  AnswerStream answers{exchange, codec, kWatchDirResponse};
  auto telling = while_followed(
      exchange, tell_changes(*watched.files, *watched.watch, answers, watched.root, watched.user,
                             flag_of(request, "includeEntry"), caller.keepalive_interval));
  if (caller.timeout_ms == 0) {
    co_return co_await std::move(telling);
  }
  auto told =
      co_await with_deadline(std::chrono::milliseconds{caller.timeout_ms}, std::move(telling));
  if (!told && told.error().code == Code::kDeadlineExceeded && told.error().reason.empty()) {
    co_return co_await answers.end_with({Code::kDeadlineExceeded, "the call took too long"});
  }
  co_return std::move(told);
}

Task<Json> FilesystemService::create_watcher(Caller caller, Json request) {
  CO_TRY(auto watched, co_await begin_watch(caller, request));
  CO_TRY(auto id, watches_.add({.sandbox = caller.sandbox,
                                .root = std::move(watched.root),
                                .user = std::move(watched.user),
                                .describe = flag_of(request, "includeEntry")},
                               std::move(watched.watch)));
  co_return Json::object({{"watcherId", std::move(id)}});
}

Task<Json> FilesystemService::watcher_events(Caller caller, Json request) {
  const std::string id = text_of(request, "watcherId");
  CO_TRY(auto changes, watches_.take(caller.sandbox, id));
  CO_TRY(const auto files, co_await open(caller));
  std::erase_if(changes.events, is_passing);
  // Each file is looked at once, however often it has changed.
  std::map<std::string, Json, std::less<>> entries;
  Json events = Json::array();
  for (const guest::FileEvent& event : changes.events) {
    Json json = file_event_json(event, changes.about.root);
    if (changes.about.describe && has_entry(event.event)) {
      auto found = entries.find(event.path);
      if (found == entries.end()) {
        CO_TRY(auto entry, co_await find_entry(*files, event.path, changes.about.user));
        found = entries.emplace(event.path, std::move(entry)).first;
      }
      if (!found->second.is_null()) {
        json.set("entry", found->second);
      }
    }
    events.push(std::move(json));
  }
  co_return Json::object({{"events", std::move(events)}});
}

Task<Json> FilesystemService::remove_watcher(Caller caller, Json request) {
  CO_TRY_DO(watches_.remove(caller.sandbox, text_of(request, "watcherId")));
  co_return Json::object();
}

}  // namespace atl::service::e2b::envd
