#include "service/e2b/envd/file_transfers.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "service/e2b/envd/connect.h"
#include "service/e2b/envd/entry_text.h"
#include "service/e2b/envd/file_metadata.h"
#include "service/e2b/envd/filesystem_service.h"
#include "service/e2b/envd/gzip.h"
#include "service/e2b/envd/multipart.h"
#include "service/e2b/envd/sandbox_path.h"
#include "service/e2b/file_signature.h"
#include "service/native/file_answer.h"
#include "service/native/piece_buffer.h"

namespace atl::service::e2b::envd {
namespace {

using control::Files;
using control::FileWriter;

constexpr std::size_t kMaxFilesPerUpload = 10'000;
constexpr std::size_t kMaxComposeBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxComposeSources = 10'000;
constexpr int kNoSpaceStatus = 507;

// {"code","message"} in E2B's words; a sandbox that is gone is the router's 502.
http::Response failure_response(Error error, std::string_view user, std::string_view path,
                                const E2bExchange& exchange) {
  if (is_sandbox_gone(error)) {
    return error_response(502, "The sandbox was not found");
  }
  if (error.reason == "no_space") {
    return error_response(kNoSpaceStatus, "not enough disk space available");
  }
  if (error.reason == "path_not_file") {
    const bool directory = error.message.ends_with("is a directory");
    return error_response(
        400, concat("path '", path, "' is ", directory ? "a directory" : "not a regular file"));
  }
  error = file_call_error(std::move(error), user, path);
  return error_response(error, false, exchange.request_id());
}

// inline; filename=a.txt, quoted where it must be, as Go's mime.FormatMediaType does it.
std::string disposition(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  const bool token = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view{"!#$&+-.^_`|~"}.find(c) != std::string_view::npos;
  });
  if (token) {
    return concat("inline; filename=", name);
  }
  const bool plain =
      std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~' && c != '%'; });
  if (!plain) {
    return concat("inline; filename*=utf-8''", http::percent_encode(name));
  }
  std::string quoted;
  for (const char c : name) {
    quoted += c == '"' || c == '\\' ? concat("\\", c) : std::string{c};
  }
  return concat("inline; filename=\"", quoted, "\"");
}

// Whoever wants gzip and nothing else gets it. Those who list all they could read get the bytes as
// they are, which is faster on any network that sandboxes are used over.
bool wants_gzip(const http::Headers& headers) {
  const auto header = headers.get("accept-encoding");
  return equals_ignore_case(trim(header.substr(0, header.find(';'))), "gzip") &&
         header.find(',') == std::string_view::npos && !headers.has("range");
}

Task<> send_compressed(E2bExchange& exchange, Files& files, std::string path, std::string user) {
  CO_TRY(const auto reader, co_await files.read_file({.path = path, .user = std::move(user)}));
  CO_TRY_DO(co_await exchange.start(200,
                                    {{"Content-Type", "application/octet-stream"},
                                     {"Content-Encoding", "gzip"},
                                     {"Content-Disposition", disposition(path)},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"Vary", "Accept-Encoding"}},
                                    std::nullopt));
  GzipWriter gzip;
  for (;;) {
    CO_TRY(const auto bytes, co_await reader->next());
    const std::string piece = bytes.empty() ? gzip.finish() : gzip.add(bytes);
    CO_TRY_DO(co_await exchange.write(piece));
    if (bytes.empty()) {
      co_return co_await exchange.finish();
    }
  }
}

Json written_json(const guest::FileInfo& info, const std::vector<guest::Attribute>& attributes) {
  Json json = Json::object({{"path", to_valid_utf8(clean_path(info.path))},
                            {"name", to_valid_utf8(info.name)},
                            {"type", "file"}});
  if (!attributes.empty()) {
    json.set("metadata", metadata_json(attributes));
  }
  return json;
}

// One upload: where its files go, and what they are to have.
class Upload {
 public:
  Upload(http::Body& body, Files& files, std::string user, std::string directory,
         std::vector<guest::Attribute> attributes)
      : body_(body),
        files_(files),
        user_(std::move(user)),
        directory_(std::move(directory)),
        attributes_(std::move(attributes)) {}

  // The whole body is the file.
  Task<> take_content(std::string path) {
    CO_TRY(auto writer, co_await open(std::move(path)));
    native::PieceBuffer buffer{body_.length()};
    for (;;) {
      CO_TRY(const auto got, co_await body_.read(buffer.span()));
      if (got == 0) {
        co_return co_await finish(*writer);
      }
      CO_TRY_DO(co_await writer->write({buffer.data(), got}));
    }
  }

  // Each part that is called "file" is one; without `path` its name says where it goes.
  Task<> take_parts(std::string boundary, std::string path) {
    using Kind = MultipartDecoder::Event::Kind;
    MultipartDecoder decoder{boundary};
    std::unique_ptr<FileWriter> writer;
    native::PieceBuffer buffer{body_.length()};
    while (!decoder.ended()) {
      CO_TRY(auto event, decoder.next());
      if (!event) {
        CO_TRY_DO(co_await read_into(decoder, buffer));
      } else if (event->kind == Kind::kPart && event->name == "file") {
        std::string target = path.empty() ? std::move(event->file_name) : path;
        if (target.empty()) {
          co_return fail(Code::kInvalidArgument,
                         "the part has no file name and the request no path");
        }
        CO_TRY(writer, co_await open(std::move(target)));
      } else if (event->kind == Kind::kData && writer) {
        CO_TRY_DO(co_await writer->write(event->bytes));
      } else if (event->kind == Kind::kPartEnd && writer) {
        CO_TRY_DO(co_await finish(*writer));
        writer.reset();
      }
    }
    co_return ok();
  }

  const std::string& path() const { return path_; }
  Json written() const { return written_; }

 private:
  Task<> read_into(MultipartDecoder& decoder, native::PieceBuffer& buffer) {
    CO_TRY(const auto got, co_await body_.read(buffer.span()));
    if (got == 0) {
      co_return fail(Code::kInvalidArgument, "the multipart body is cut short");
    }
    decoder.feed({buffer.data(), got});
    co_return ok();
  }

  Task<std::unique_ptr<FileWriter>> open(std::string path) {
    path_ = guest_path(path, directory_);
    if (!targets_.insert(path_).second) {
      co_return fail(Code::kInvalidArgument,
                     concat("you cannot upload multiple files to the same path '", path, "'"));
    }
    if (targets_.size() > kMaxFilesPerUpload) {
      co_return fail(Code::kInvalidArgument,
                     concat("an upload has at most ", kMaxFilesPerUpload, " files"));
    }
    co_return co_await files_.write_file({.path = path_,
                                          .user = acting_user(user_),
                                          .take_ownership = true,
                                          .attributes = attributes_});
  }

  Task<> finish(FileWriter& writer) {
    CO_TRY(const auto info, co_await writer.finish());
    written_.push(written_json(info, attributes_));
    co_return ok();
  }

  http::Body& body_;
  Files& files_;
  const std::string user_;
  const std::string directory_;
  const std::vector<guest::Attribute> attributes_;
  std::string path_;  // of the file that is being written
  std::set<std::string> targets_;
  Json written_ = Json::array();
};

Task<> append_file(Files& files, FileWriter& writer, std::string path, std::string user) {
  CO_TRY(const auto reader,
         co_await files.read_file({.path = std::move(path), .user = std::move(user)}));
  for (;;) {
    CO_TRY(const auto bytes, co_await reader->next());
    if (bytes.empty()) {
      co_return ok();
    }
    CO_TRY_DO(co_await writer.write(bytes));
  }
}

}  // namespace

Result<FileTransfers::Access> FileTransfers::authorize(const E2bExchange& exchange,
                                                       const SandboxTarget& target) const {
  if (!target.token_right) {
    const auto signature = FileSignature::of(exchange.request());
    if (!signature) {
      return fail(Code::kUnauthenticated,
                  "missing signature: the sandbox needs its access token or a signed URL");
    }
    if (!signature->is_of(target.access_token)) {
      return fail(Code::kUnauthenticated, "invalid signature");
    }
    TRY_DO(signature->check_time(clock_.now()));
  }
  // A signature is for the user it names, or for nobody in particular: who holds it does not
  // choose.
  std::string user = target.user;
  if (target.token_right) {
    TRY(auto caller, read_caller(exchange.request(), target));
    user = std::move(caller.user);
  }
  auto named = http::query_value(exchange.request().query, "username");
  const auto defaults = places_.defaults({target.sandbox.team_id, target.sandbox.sandbox_id});
  return Access{.user = named && !named->empty() ? *std::move(named) : std::move(user),
                .directory = process_directory({}, defaults.cwd)};
}

Task<> FileTransfers::serve(E2bExchange& exchange, const SandboxTarget& target) {
  const std::string& method = exchange.request().method;
  if (method != "GET" && method != "HEAD" && method != "POST") {
    co_return co_await exchange.respond(error_response(405, "only GET and POST are possible here"));
  }
  CO_TRY(const auto access, authorize(exchange, target));
  auto files = co_await places_.open({target.sandbox.team_id, target.sandbox.sandbox_id});
  if (!files) {
    co_return co_await exchange.respond(
        failure_response(std::move(files).error(), access.user, {}, exchange));
  }
  if (method == "POST") {
    co_return co_await upload(exchange, **files, access);
  }
  co_return co_await download(exchange, **files, access);
}

Task<> FileTransfers::download(E2bExchange& exchange, Files& files, Access access) {
  const std::string asked = http::query_value(exchange.request().query, "path").value_or("");
  const std::string path = guest_path(asked, access.directory);
  const std::string user = acting_user(access.user);
  const auto refuse = [](const Error& error) { return error_response(416, error.message); };
  native::FileAnswer answer{
      .path = path,
      .user = user,
      .headers = {{"Content-Disposition", disposition(path)}, {"Vary", "Accept-Encoding"}},
      .refuse = refuse};
  Task<> sending = wants_gzip(exchange.request().headers)
                       ? send_compressed(exchange, files, path, user)
                       : native::answer_with_file(exchange, files, std::move(answer));
  auto sent = co_await std::move(sending);
  if (!sent && !exchange.started()) {
    co_return co_await exchange.respond(
        failure_response(std::move(sent).error(), access.user, path, exchange));
  }
  co_return std::move(sent);
}

Task<> FileTransfers::upload(E2bExchange& exchange, Files& files, Access access) {
  const http::Headers& headers = exchange.request().headers;
  CO_TRY(auto attributes, read_metadata(headers));
  const std::string path = http::query_value(exchange.request().query, "path").value_or("");
  const auto boundary = multipart_boundary(headers.get("content-type"));
  const std::string type = to_lower(trim(headers.get("content-type")));
  if (!boundary && (!type.starts_with("application/octet-stream") || path.empty())) {
    co_return co_await exchange.respond(error_response(
        400, "an upload is multipart/form-data, or application/octet-stream with a path"));
  }
  const std::string coding = to_lower(trim(headers.get("content-encoding")));
  if (!coding.empty() && coding != "gzip" && coding != "identity") {
    co_return co_await exchange.respond(
        error_response(400, concat("the content encoding '", to_valid_utf8(coding),
                                   "' is not supported; use gzip or none")));
  }
  std::optional<GunzipBody> unpacked;
  if (coding == "gzip") {
    unpacked.emplace(exchange.body());
  }
  http::Body& body = unpacked ? static_cast<http::Body&>(*unpacked) : exchange.body();
  Upload upload{body, files, access.user, access.directory, std::move(attributes)};
  Task<> taking = boundary ? upload.take_parts(*boundary, path) : upload.take_content(path);
  auto taken = co_await std::move(taking);
  if (!taken) {
    co_return co_await exchange.respond(
        failure_response(std::move(taken).error(), access.user, upload.path(), exchange));
  }
  co_return co_await exchange.respond_json(200, upload.written());
}

Task<> FileTransfers::compose(E2bExchange& exchange, const SandboxTarget& target) {
  if (exchange.request().method != "POST") {
    co_return co_await exchange.respond(error_response(405, "only POST is possible here"));
  }
  std::string user;
  auto composed = co_await compose_now(exchange, target, user);
  if (!composed && !exchange.started()) {
    co_return co_await exchange.respond(
        failure_response(std::move(composed).error(), user, "of a source", exchange));
  }
  co_return std::move(composed);
}

Task<> FileTransfers::compose_now(E2bExchange& exchange, const SandboxTarget& target,
                                  std::string& user) {
  CO_TRY(auto access, authorize(exchange, target));
  CO_TRY(const auto text, co_await http::read_all(exchange.body(), kMaxComposeBytes));
  CO_TRY(const auto body, Json::parse(text));
  const Json* sources = body.find("source_paths");
  const Json* destination = body.find("destination");
  const Json* named = body.find("username");
  const bool good =
      sources != nullptr && sources->as_array() != nullptr && !sources->as_array()->empty() &&
      sources->as_array()->size() <= kMaxComposeSources && destination != nullptr &&
      destination->as_string() != nullptr && !destination->as_string()->empty() &&
      std::ranges::all_of(*sources->as_array(),
                          [](const Json& each) { return each.as_string() != nullptr; });
  if (!good) {
    co_return fail(Code::kInvalidArgument,
                   "source_paths and destination are needed: where the pieces are, where they go");
  }
  user = named != nullptr && named->as_string() != nullptr ? *named->as_string() : access.user;
  const std::string acting = acting_user(user);
  CO_TRY(const auto files,
         co_await places_.open({target.sandbox.team_id, target.sandbox.sandbox_id}));
  CO_TRY(const auto writer, co_await files->write_file(
                                {.path = guest_path(*destination->as_string(), access.directory),
                                 .user = acting,
                                 .take_ownership = true}));
  for (const Json& source : *sources->as_array()) {
    std::string path = guest_path(*source.as_string(), access.directory);
    auto appended = co_await append_file(*files, *writer, path, acting);
    if (!appended) {
      co_return fail(file_call_error(std::move(appended).error(), user, path));
    }
  }
  CO_TRY(const auto info, co_await writer->finish());
  for (const Json& source : *sources->as_array()) {
    std::string path = guest_path(*source.as_string(), access.directory);
    if (path != guest_path(*destination->as_string(), access.directory)) {
      CO_TRY_DO(co_await files->remove({.path = std::move(path), .user = acting}));
    }
  }
  co_return co_await exchange.respond_json(200, written_json(info, {}));
}

}  // namespace atl::service::e2b::envd
