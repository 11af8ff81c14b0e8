// Validators of files (ETag, Last-Modified) and the conditions of RFC 9110 that refer to them.
//
// The ETag names inode, size and change time: every write, replacement and change of mode gives
// another one, and no program in the sandbox can set a change time. Two writes within one tick of
// the clock of an old kernel (before 6.13) may share it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "guest/wire.h"
#include "http/message.h"

namespace atl::service::native {

std::string etag_of(const guest::FileInfo& info);  // with its quotes
std::string http_date(std::int64_t unix_ns);       // "Sun, 06 Nov 1994 08:49:37 GMT"
std::optional<std::int64_t> parse_http_date(std::string_view text);  // seconds

enum class Verdict : std::uint8_t { kProceed, kNotModified, kFailed };

bool has_conditions(const http::Headers& headers);
std::unexpected<Error> precondition_failed();
// Of a GET or HEAD on a file that exists.
Verdict judge_read(const http::Headers& headers, const guest::FileInfo& info);
// Whether a Range counts: there is no If-Range, or it names this version.
bool range_counts(const http::Headers& headers, const guest::FileInfo& info);

// Of a write; `existing` is empty when there is no file yet. kFailed, or what the guest shall check
// once more when it replaces the file.
struct WriteConditions {
  Verdict verdict = Verdict::kProceed;
  bool only_new = false;
  std::optional<guest::FileVersion> only_version;
};
WriteConditions judge_write(const http::Headers& headers,
                            const std::optional<guest::FileInfo>& existing);

// What a client may take the content for, by the name alone. Never JSON, which the contract keeps
// for the base64 form, and nothing that a browser would run.
std::string_view content_type_of(std::string_view path);

}  // namespace atl::service::native
