// Beast is used for one thing: to split a head into start line and fields by the letter of the
// grammar. It is told to skip the body, so its own opinion about framing (lenient about unknown
// transfer codings and repeated lengths) never counts; the gate alone decides that. This is the
// only file that includes Beast.
#include "http/h1_grammar.h"

#include <boost/beast/http/basic_parser.hpp>
#include <limits>

namespace atl::http {
namespace {

namespace beast = boost::beast;
using ErrorCode = beast::error_code;

template <bool IsRequest>
class Collector final : public beast::http::basic_parser<IsRequest> {
 public:
  explicit Collector(Http1Head& head) : head_(head) {
    this->header_limit(std::numeric_limits<std::uint32_t>::max());
    this->skip(true);
  }

 private:
  static std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                       int version, ErrorCode&) override {
    head_.method = view(method);
    head_.target = view(target);
    head_.minor_version = version - 10;
  }
  void on_response_impl(int status, beast::string_view, int version, ErrorCode&) override {
    head_.status = status;
    head_.minor_version = version - 10;
  }
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     ErrorCode&) override {
    head_.headers.add(view(name), view(value));
  }
  void on_header_impl(ErrorCode&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, ErrorCode&) override {}
  std::size_t on_body_impl(beast::string_view, ErrorCode&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, ErrorCode&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, ErrorCode&) override {
    return 0;
  }
  void on_finish_impl(ErrorCode&) override {}

  Http1Head& head_;
};

// "... HTTP/d.d": a version, though not one of ours.
bool ends_with_other_version(std::string_view start_line) {
  if (start_line.size() < 9) {
    return false;
  }
  const auto version = start_line.substr(start_line.size() - 9);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return version.starts_with(" HTTP/") && digit(version[6]) && version[7] == '.' &&
         digit(version[8]) && version != " HTTP/1.0" && version != " HTTP/1.1";
}

Refusal refusal_of(const ErrorCode& code, std::string_view text) {
  using Problem = beast::http::error;
  if (code == Problem::bad_version) {
    return ends_with_other_version(text.substr(0, text.find('\r')))
               ? Refusal{505, "the HTTP version is not supported"}
               : Refusal{400, "the start line has no HTTP version"};
  }
  if (code == Problem::bad_method || code == Problem::bad_target) {
    return {400, "the request line is malformed"};
  }
  if (code == Problem::bad_status || code == Problem::bad_reason) {
    return {400, "the status line is malformed"};
  }
  if (code == Problem::bad_content_length || code == Problem::multiple_content_length) {
    return {400, "Content-Length is not one decimal number"};
  }
  if (code == Problem::bad_transfer_encoding) {
    return {400, "Transfer-Encoding is ambiguous"};
  }
  return {400, "a header field is malformed"};
}

template <bool IsRequest>
std::optional<Refusal> run(std::string_view text, Http1Head& head) {
  Collector<IsRequest> collector{head};
  ErrorCode error;
  const std::size_t used =
      collector.put(boost::asio::const_buffer{text.data(), text.size()}, error);
  if (error) {
    return refusal_of(error, text);
  }
  if (!collector.is_done() || used != text.size()) {
    return Refusal{400, "the head is malformed"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> parse_head(std::string_view text, Role role, Http1Head& head) {
  return role == Role::kRequest ? run<true>(text, head) : run<false>(text, head);
}

}  // namespace atl::http
