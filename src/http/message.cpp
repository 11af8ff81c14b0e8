#include "http/message.h"

#include "base/strings.h"

namespace atl::http {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} * 1024;

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

bool is_name(const Headers::Line& line, std::string_view name) {
  return line.first.size() == name.size() && equals_ignore_case(line.first, name);
}

}  // namespace

void Headers::set(std::string_view name, std::string_view value) {
  std::erase_if(lines_, [name](const Line& line) { return is_name(line, name); });
  add(name, value);
}

void Headers::remove(std::string_view name) {
  std::erase_if(lines_, [name](const Line& line) { return is_name(line, name); });
}

std::string_view Headers::get(std::string_view name) const {
  for (const Line& line : lines_) {
    if (is_name(line, name)) {
      return line.second;
    }
  }
  return {};
}

bool Headers::has(std::string_view name) const {
  return count(name) > 0;
}

std::size_t Headers::count(std::string_view name) const {
  std::size_t found = 0;
  for (const auto& line : lines_) {
    found += is_name(line, name) ? 1 : 0;
  }
  return found;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return std::nullopt;
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' && plus_is_space ? ' ' : text[i];
    }
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  for (const auto pair : split(query, '&')) {
    const auto equals = pair.find('=');
    const auto key = percent_decode(pair.substr(0, equals), true);
    if (key && *key == name) {
      return equals == std::string_view::npos ? std::string{}
                                              : percent_decode(pair.substr(equals + 1), true);
    }
  }
  return std::nullopt;
}

Task<std::string> read_all(Body& body, std::size_t max_bytes) {
  const auto too_large = [max_bytes] {
    return fail(Code::kResourceExhausted,
                concat("the body is larger than the ", max_bytes, " bytes allowed here"),
                "request_too_large");
  };
  const auto length = body.length();
  if (length && *length > max_bytes) {
    co_return too_large();
  }
  std::string all;
  // One byte more than allowed, so that a body of exactly the limit still shows its end.
  const std::size_t piece = std::min(kReadBytes, std::min(max_bytes, kReadBytes) + 1);
  for (;;) {
    const std::size_t old_size = all.size();
    all.resize(old_size + piece);
    auto got = co_await body.read(std::span{all}.subspan(old_size));
    if (!got) {
      co_return fail(std::move(got).error());
    }
    all.resize(old_size + *got);
    if (*got == 0) {
      co_return std::move(all);
    }
    if (all.size() > max_bytes) {
      co_return too_large();
    }
  }
}

std::string_view status_text(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

}  // namespace atl::http
