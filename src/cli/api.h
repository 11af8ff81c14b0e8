// Api: one connection to the native API, with its envelope taken off.
//
// One request at a time; a command that needs several at once (output, input and signals of a
// process) makes several Apis. Connections open on first use, so an Api costs nothing before.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/task.h"
#include "cli/endpoint.h"
#include "cli/limits.h"
#include "http/client.h"
#include "io/reactor.h"

namespace atl::cli {

class Api {
 public:
  Api(io::Reactor& reactor, const Endpoint& endpoint);
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // The `data` of a successful answer. `path` begins with /api/v1 and is percent-encoded.
  Task<Json> call(std::string method, std::string path, std::optional<Json> body = std::nullopt,
                  Duration deadline = kCallDeadline);
  // A successful answer whose body the caller reads.
  Task<std::unique_ptr<http::ClientResponse>> open(std::string path);
  // The same for a POST of raw bytes.
  Task<std::unique_ptr<http::ClientResponse>> open_upload(std::string path, http::Headers extra,
                                                          std::optional<std::uint64_t> length,
                                                          http::BodySource source);
  Task<std::unique_ptr<http::WebSocket>> open_socket(std::string path);
  // Sends raw bytes; without a length chunked.
  Task<Json> upload(std::string path, std::optional<std::uint64_t> length, http::BodySource source);

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Task<Json> call_now(std::string method, std::string path, std::optional<Json> body);
  http::Headers headers() const;

  const Endpoint& endpoint_;
  http::Client client_;
};

// Percent-encoded paths of the API.
std::string sandbox_path(std::string_view id, std::string_view rest = {});
std::string context_path(std::string_view sandbox_id, std::string_view context_id,
                         std::string_view rest = {});
// …/files<verb>?path=<path>
std::string file_path(std::string_view sandbox_id, std::string_view verb, std::string_view path);

// The string member, or empty.
std::string text_member(const Json& object, std::string_view key);

}  // namespace atl::cli
