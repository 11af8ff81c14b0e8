#include "service/native/file_answer.h"

#include "base/scope.h"
#include "base/strings.h"
#include "guest/wire_passing.h"
#include "service/native/byte_range.h"
#include "service/native/file_conditions.h"

namespace atl::service::native {
namespace {

using control::FileReader;

constexpr int kMaxLooks = 3;

// The validators, and what keeps a browser from taking a file for a page of ours.
http::Headers file_headers(const guest::FileInfo& info, const FileAnswer& answer) {
  http::Headers headers = answer.headers;
  headers.set("Content-Type", content_type_of(answer.path));
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Content-Security-Policy", "sandbox");
  headers.set("Accept-Ranges", "bytes");
  headers.set("ETag", etag_of(info));
  headers.set("Last-Modified", http_date(info.modified_unix_ns));
  headers.set("Cache-Control", "private, no-cache");
  return headers;
}

// A file that has content and says it has none, as in /proc: no validator means anything.
http::Headers endless_headers(const FileAnswer& answer) {
  http::Headers headers = answer.headers;
  headers.set("Content-Type", "application/octet-stream");
  headers.set("X-Content-Type-Options", "nosniff");
  return headers;
}

// Where the kernel can send a file by itself, its descriptor is asked for instead of its bytes.
std::uint64_t asked_length(http::Exchange& exchange, const control::Files& files,
                           std::uint64_t length = UINT64_MAX) {
  const control::GuestClient* guest = files.guest();
  return guest != nullptr && exchange.reserve_file(guest->socket_path())
             ? guest::with_passing(length)
             : length;
}

Task<> cancel_when_gone(FileReader& reader, CancelState& cancel) {
  if (auto gone = co_await reader.gone(); gone) {
    cancel.cancel();
  }
  co_return ok();
}

// The descriptor must not keep the disk of a sandbox that goes away: whoever holds it lets go then,
// however slowly its client reads.
Task<> send_passed(http::Exchange& exchange, FileReader& reader, io::ForeignFd file, Slice slice) {
  TaskContext& outer = co_await current_context();
  CancelState cancel{outer.cancel};
  TaskContext inner{outer.loop, &cancel, outer.trace};
  Scope scope{outer};
  scope.spawn("end of a file's sandbox", cancel_when_gone(reader, cancel));
  http::Exchange::FilePart part{
      .file = std::move(file), .offset = slice.offset, .length = slice.length};
  auto sent = co_await exchange.send_file(std::move(part)).under(inner);
  (void)co_await scope.cancel_and_join();
  if (!sent && sent.error().code == Code::kCancelled && !outer.cancel->cancelled()) {
    co_return fail(Code::kUnavailable, "the sandbox went away while its file was read",
                   "guest_lost");
  }
  CO_TRY_DO(std::move(sent));
  co_return co_await exchange.finish();
}

// Sends exactly `length` bytes, or fails: a file that shrank must not look complete.
Task<> send_exactly(http::Exchange& exchange, FileReader& reader, std::uint64_t length) {
  while (length > 0) {
    CO_TRY(auto bytes, co_await reader.next());
    if (bytes.empty()) {
      co_return fail(Code::kDataLoss, "the file became shorter while it was read");
    }
    bytes =
        bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), length)));
    CO_TRY_DO(co_await exchange.write(bytes));
    length -= bytes.size();
  }
  co_return co_await exchange.finish();
}

Task<> send_slice(http::Exchange& exchange, FileReader& reader, Slice slice) {
  if (io::ForeignFd file = reader.take_file()) {
    return send_passed(exchange, reader, std::move(file), slice);
  }
  exchange.release_file();
  return send_exactly(exchange, reader, slice.length);
}

Task<> send_raw(http::Exchange& exchange, FileReader& reader, const FileAnswer& answer) {
  const guest::FileInfo& info = reader.info();
  if (info.size > 0) {
    CO_TRY_DO(co_await exchange.start(200, file_headers(info, answer), info.size));
    co_return co_await send_slice(exchange, reader, {0, info.size});
  }
  exchange.release_file();
  CO_TRY(auto bytes, co_await reader.next());
  if (bytes.empty()) {
    CO_TRY_DO(co_await exchange.start(200, file_headers(info, answer), 0));
    co_return co_await exchange.finish();
  }
  CO_TRY_DO(co_await exchange.start(200, endless_headers(answer), std::nullopt));
  while (!bytes.empty()) {
    CO_TRY_DO(co_await exchange.write(bytes));
    CO_TRY(bytes, co_await reader.next());
  }
  co_return co_await exchange.finish();
}

Task<> send_not_modified(http::Exchange& exchange, guest::FileInfo info, const FileAnswer& answer) {
  http::Response response{.status = 304, .headers = file_headers(info, answer), .body = {}};
  co_return co_await exchange.respond(std::move(response));
}

Task<> send_head(http::Exchange& exchange, FileReader& reader, const FileAnswer& answer) {
  const guest::FileInfo& info = reader.info();
  bool endless = false;
  if (info.size == 0) {
    CO_TRY(const auto bytes, co_await reader.next());
    endless = !bytes.empty();
  }
  CO_TRY_DO(co_await exchange.start(200,
                                    endless ? endless_headers(answer) : file_headers(info, answer),
                                    endless ? std::nullopt : std::optional{info.size}));
  co_return co_await exchange.finish();
}

Task<> refuse_range(http::Exchange& exchange, const FileAnswer& answer, Error error,
                    std::uint64_t size) {
  http::Response response = answer.refuse(error);
  response.headers.set("Content-Range", concat("bytes */", size));
  co_return co_await exchange.respond(std::move(response));
}

// False: the file is another one than `seen` by now, and nothing was answered.
Task<bool> send_range(http::Exchange& exchange, control::Files& files, const FileAnswer& answer,
                      Slice slice, guest::FileInfo seen) {
  CO_TRY(const auto reader,
         co_await files.read_file({.path = answer.path,
                                   .user = answer.user,
                                   .offset = slice.offset,
                                   .length = asked_length(exchange, files, slice.length)}));
  if (etag_of(reader->info()) != etag_of(seen)) {
    co_return false;
  }
  http::Headers headers = file_headers(seen, answer);
  headers.set("Content-Range",
              concat("bytes ", slice.offset, "-", slice.offset + slice.length - 1, "/", seen.size));
  CO_TRY_DO(co_await exchange.start(206, std::move(headers), slice.length));
  CO_TRY_DO(co_await send_slice(exchange, *reader, slice));
  co_return true;
}

// One look at the file, and the answer that follows from it. False: look again.
Task<bool> answer_after_look(http::Exchange& exchange, control::Files& files,
                             const FileAnswer& answer) {
  const http::Headers& asked = exchange.request().headers;
  const bool head = exchange.request().method == "HEAD";
  CO_TRY(auto look,
         co_await files.read_file({.path = answer.path, .user = answer.user, .length = 1}));
  const guest::FileInfo info = look->info();
  const Verdict verdict = judge_read(asked, info);
  if (verdict == Verdict::kFailed) {
    co_return precondition_failed();
  }
  if (verdict == Verdict::kNotModified) {
    CO_TRY_DO(co_await send_not_modified(exchange, info, answer));
    co_return true;
  }
  if (head) {
    CO_TRY_DO(co_await send_head(exchange, *look, answer));
    co_return true;
  }
  look.reset();
  const auto range = parse_byte_range(asked.get("Range"));
  if (range && range_counts(asked, info)) {
    auto slice = resolve_range(*range, info.size);
    if (!slice) {
      CO_TRY_DO(co_await refuse_range(exchange, answer, std::move(slice).error(), info.size));
      co_return true;
    }
    co_return co_await send_range(exchange, files, answer, *slice, info);
  }
  CO_TRY(const auto reader,
         co_await files.read_file(
             {.path = answer.path, .user = answer.user, .length = asked_length(exchange, files)}));
  if (etag_of(reader->info()) != etag_of(info)) {
    co_return false;
  }
  CO_TRY_DO(co_await send_raw(exchange, *reader, answer));
  co_return true;
}

}  // namespace

Task<> answer_with_file(http::Exchange& exchange, control::Files& files, FileAnswer answer) {
  const auto& headers = exchange.request().headers;
  const bool head = exchange.request().method == "HEAD";
  if (!head && !headers.has("Range") && !has_conditions(headers)) {
    CO_TRY(const auto reader, co_await files.read_file({.path = answer.path,
                                                        .user = answer.user,
                                                        .length = asked_length(exchange, files)}));
    co_return co_await send_raw(exchange, *reader, answer);
  }
  for (int look = 0; look < kMaxLooks; ++look) {
    CO_TRY(const bool answered, co_await answer_after_look(exchange, files, answer));
    if (answered) {
      co_return ok();
    }
  }
  co_return fail(Code::kAborted, "the file changes faster than it can be read");
}

}  // namespace atl::service::native
