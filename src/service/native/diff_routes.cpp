// The list comes whole up to a limit, or line by line without one. An answer that streams begins
// with the first thing there is to send, so what fails at once is an ordinary error; what fails
// later breaks the connection off: half an answer must not look like a whole one.
#include "service/native/diff_routes.h"

#include "base/strings.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"
#include "service/native/file_target.h"

namespace atl::service::native {
namespace {

using control::DiffQuery;
using control::Permission;
using control::StateRef;
using guest::ChangeType;
using guest::FileType;
using oci::ArchiveFormat;

constexpr std::int64_t kDefaultListed = 1000;
constexpr std::int64_t kMaxListed = 10'000;
constexpr std::size_t kLinesBytes = std::size_t{64} * 1024;  // sent together

std::string_view change_name(ChangeType change) {
  switch (change) {
    case ChangeType::kAdded:
      return "added";
    case ChangeType::kRemoved:
      return "removed";
    case ChangeType::kChanged:
    case ChangeType::kKept:
      break;
  }
  return "changed";
}

std::string_view type_name(FileType type) {
  switch (type) {
    case FileType::kDirectory:
      return "dir";
    case FileType::kSymlink:
      return "symlink";
    case FileType::kFifo:
      return "fifo";
    case FileType::kOther:
      return "other";
    case FileType::kFile:
    case FileType::kHardlink:
      break;
  }
  return "file";
}

Json change_json(const guest::Change& change) {
  const guest::TreeEntry& entry = change.entry;
  const std::string path = concat("/", entry.path);
  Json json = Json::object({{"change", change_name(change.change)},
                            {"path", to_valid_utf8(path)},
                            {"type", type_name(entry.type)},
                            {"size", entry.size},
                            {"mode", mode_text(entry.mode)},
                            {"uid", entry.uid},
                            {"gid", entry.gid},
                            {"mod_time", rfc3339(entry.modified_unix_ns / 1'000'000)}});
  if (*json.find("path")->as_string() != path) {
    json.set("path_base64", base64_encode(path));
  }
  if (!entry.link_target.empty()) {
    json.set("link_target", to_valid_utf8(entry.link_target));
  }
  if (change.change == ChangeType::kChanged) {
    json.set("old_type", type_name(change.old_type));
    json.set("old_size", change.old_size);
    json.set("old_mode", mode_text(change.old_mode));
  }
  return json;
}

enum class ListFormat : std::uint8_t { kJson, kLines };
struct Format {
  ListFormat list = ListFormat::kJson;
  std::optional<ArchiveFormat> archive;
};

Result<Format> parse_format(const NativeExchange& exchange) {
  const auto text = http::query_value(exchange.request().query, "format");
  if (!text || text->empty()) {
    return Format{wants_lines(exchange) ? ListFormat::kLines : ListFormat::kJson, {}};
  }
  if (*text == "json" || *text == "ndjson") {
    return Format{*text == "json" ? ListFormat::kJson : ListFormat::kLines, {}};
  }
  if (*text == "tar") {
    return Format{{}, ArchiveFormat::kTar};
  }
  if (*text == "tar.gz" || *text == "tgz") {
    return Format{{}, ArchiveFormat::kTarGzip};
  }
  if (*text == "tar.zst") {
    return Format{{}, ArchiveFormat::kTarZstd};
  }
  return fail(Code::kInvalidArgument,
              "query parameter \"format\" must be json, ndjson, tar, tar.gz or tar.zst");
}

Result<ArchiveFormat> parse_compression(std::string_view query) {
  const std::string text = http::query_value(query, "compression").value_or("gzip");
  if (text == "gzip") {
    return ArchiveFormat::kTarGzip;
  }
  if (text == "zstd") {
    return ArchiveFormat::kTarZstd;
  }
  if (text == "none") {
    return ArchiveFormat::kTar;
  }
  return fail(Code::kInvalidArgument, "query parameter \"compression\" must be gzip, zstd or none");
}

struct FileKind {
  std::string_view type;
  std::string_view ending;
};
FileKind kind_of(ArchiveFormat format) {
  switch (format) {
    case ArchiveFormat::kTarGzip:
      return {"application/gzip", ".tar.gz"};
    case ArchiveFormat::kTarZstd:
      return {"application/zstd", ".tar.zst"};
    case ArchiveFormat::kTar:
      break;
  }
  return {"application/x-tar", ".tar"};
}

// An answer that begins with its first bytes.
class Download {
 public:
  Download(NativeExchange& exchange, std::string name, FileKind kind)
      : exchange_(exchange), name_(std::move(name)), kind_(kind) {}

  Task<> write(std::string_view bytes) {
    if (!exchange_.started()) {
      CO_TRY_DO(co_await exchange_.start(
          200,
          {{"Content-Type", std::string{kind_.type}},
           {"X-Content-Type-Options", "nosniff"},
           {"Content-Disposition", concat("attachment; filename=\"", name_, kind_.ending, "\"")}},
          std::nullopt));
    }
    co_return co_await exchange_.write(bytes);
  }

 private:
  NativeExchange& exchange_;
  const std::string name_;
  const FileKind kind_;
};

// Changes as lines, some at a time.
class Lines {
 public:
  explicit Lines(NativeExchange& exchange) : exchange_(exchange) {}

  Task<bool> add(const guest::Change& change) {
    pending_ += change_json(change).dump();
    pending_ += '\n';
    if (pending_.size() >= kLinesBytes) {
      CO_TRY_DO(co_await flush());
    }
    co_return true;
  }
  Task<> flush() {
    if (!exchange_.started()) {
      CO_TRY_DO(co_await start_lines(exchange_, 200));
    }
    const std::string lines = std::exchange(pending_, {});
    if (!lines.empty()) {
      CO_TRY_DO(co_await exchange_.write(lines));
    }
    co_return ok();
  }

 private:
  NativeExchange& exchange_;
  std::string pending_;
};

// Some of the changes, for one answer.
struct Page {
  Json changes = Json::array();
  std::int64_t count = 0;
  std::int64_t limit = 0;
  bool truncated = false;

  Task<bool> add(const guest::Change& change) {
    truncated = count >= limit;
    if (!truncated) {
      changes.push(change_json(change));
      ++count;
    }
    co_return !truncated;
  }
};

}  // namespace

void DiffRoutes::add_to(RouteTable& table) {
  if (diffs_ == nullptr) {
    return;
  }
  constexpr std::string_view kSandbox = "/api/v1/sandboxes/{id}";
  constexpr std::string_view kSnapshot = "/api/v1/sandbox-rootfs-snapshots/{id}";
  const auto add = [&](std::string_view prefix, std::string_view what, StateRef::Kind kind,
                       Task<> (DiffRoutes::*handler)(NativeExchange&, StateRef)) {
    table.add("GET", concat(prefix, what), Permission::kSandboxRead,
              [this, kind, handler](NativeExchange& e, const http::PathParameters& p) {
                return (this->*handler)(e, StateRef{kind, parameter(p, "id")});
              });
  };
  add(kSandbox, "/diff", StateRef::Kind::kSandbox, &DiffRoutes::diff);
  add(kSandbox, "/export", StateRef::Kind::kSandbox, &DiffRoutes::export_image);
  add(kSnapshot, "/diff", StateRef::Kind::kSnapshot, &DiffRoutes::diff);
  add(kSnapshot, "/export", StateRef::Kind::kSnapshot, &DiffRoutes::export_image);
}

Task<> DiffRoutes::diff(NativeExchange& exchange, StateRef subject) {
  const std::string& text = exchange.request().query;
  CO_TRY_DO(allow_query(text, {"from", "format", "limit"}));
  CO_TRY(const Format format, parse_format(exchange));
  DiffQuery query{.team_id = exchange.principal().team_id, .subject = std::move(subject)};
  if (auto from = http::query_value(text, "from"); from && !from->empty()) {
    query.from = control::state_ref(*std::move(from));
  }
  if (format.archive) {
    co_return co_await stream_archive(exchange, std::move(query), *format.archive);
  }
  if (format.list == ListFormat::kLines) {
    co_return co_await stream_list(exchange, std::move(query));
  }
  co_return co_await answer_list(exchange, std::move(query));
}

Task<> DiffRoutes::answer_list(NativeExchange& exchange, DiffQuery query) {
  CO_TRY(const auto limit, query_integer(exchange.request().query, "limit", 1, kMaxListed));
  Page page{.limit = limit.value_or(kDefaultListed)};
  const control::Diffs::Each each = [&page](const guest::Change& change) {
    return page.add(change);
  };
  CO_TRY_DO(co_await while_client_waits(exchange, diffs_->list(std::move(query), each)));
  co_return co_await exchange.respond(
      data_response(200, Json::object({{"changes", std::move(page.changes)},
                                       {"count", page.count},
                                       {"truncated", page.truncated}})));
}

Task<> DiffRoutes::stream_list(NativeExchange& exchange, DiffQuery query) {
  Lines lines{exchange};
  const control::Diffs::Each each = [&lines](const guest::Change& change) {
    return lines.add(change);
  };
  CO_TRY_DO(co_await diffs_->list(std::move(query), each));
  CO_TRY_DO(co_await lines.flush());
  co_return co_await exchange.finish();
}

Task<> DiffRoutes::stream_archive(NativeExchange& exchange, DiffQuery query, ArchiveFormat format) {
  Download download{exchange, "diff", kind_of(format)};
  const control::Diffs::Write write = [&download](std::string_view bytes) {
    return download.write(bytes);
  };
  CO_TRY_DO(co_await diffs_->archive(std::move(query), format, write));
  co_return co_await exchange.finish();
}

Task<> DiffRoutes::export_image(NativeExchange& exchange, StateRef subject) {
  const std::string& text = exchange.request().query;
  CO_TRY_DO(allow_query(text, {"layer_only", "compression"}));
  CO_TRY(const bool layer_only, query_boolean(text, "layer_only"));
  CO_TRY(const ArchiveFormat format, parse_compression(text));
  const std::string& team_id = exchange.principal().team_id;
  if (layer_only) {
    co_return co_await stream_archive(exchange, {.team_id = team_id, .subject = std::move(subject)},
                                      format);
  }
  Download download{exchange, "image", kind_of(ArchiveFormat::kTar)};
  const control::Diffs::Write write = [&download](std::string_view bytes) {
    return download.write(bytes);
  };
  CO_TRY_DO(co_await diffs_->export_image(team_id, std::move(subject), format, write));
  co_return co_await exchange.finish();
}

}  // namespace atl::service::native
