#include "proxy/adapters/postgres_messages.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::proxy::adapters {
namespace {

constexpr std::uint32_t kCancelRequest = 80877102;
constexpr std::uint32_t kGssRequest = 80877104;
constexpr std::uint32_t kMajorVersion = 3;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxParameters = 64;

std::unexpected<Error> malformed() {
  return fail(Code::kInvalidArgument, "this is not PostgreSQL's protocol 3");
}

// Pairs of names and values, each ended by a zero byte, and one more at the end.
Result<> read_parameters(std::string_view bytes, PostgresStartup& startup) {
  for (;;) {
    const auto name_end = bytes.find('\0');
    if (name_end == bytes.npos) {
      return malformed();
    }
    const std::string name{bytes.substr(0, name_end)};
    bytes.remove_prefix(name_end + 1);
    if (name.empty()) {
      return bytes.empty() ? Result<>{} : malformed();
    }
    const auto value_end = bytes.find('\0');
    if (value_end == bytes.npos || startup.parameters.size() == kMaxParameters ||
        startup.find(name) != nullptr) {
      return malformed();
    }
    startup.parameters.emplace_back(name, bytes.substr(0, value_end));
    bytes.remove_prefix(value_end + 1);
  }
}

}  // namespace

std::uint32_t read_postgres_u32(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) {
    return 0;
  }
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, kLengthBytes)) {
    value = value << 8U | static_cast<unsigned char>(byte);
  }
  return value;
}

std::string postgres_u32(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> static_cast<unsigned>(shift)));
  }
  return out;
}

const std::string* PostgresStartup::find(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [name](const auto& pair) { return pair.first == name; });
  return found == parameters.end() ? nullptr : &found->second;
}

void PostgresStartup::set(std::string_view name, std::string value) {
  for (auto& [known, old] : parameters) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  parameters.emplace_back(name, std::move(value));
}

Result<std::optional<PostgresStartup>> read_postgres_startup(std::string_view bytes) {
  constexpr std::size_t kHeadBytes = 2 * kLengthBytes;
  if (bytes.size() < kHeadBytes) {
    return std::nullopt;
  }
  const std::uint32_t size = read_postgres_u32(bytes);
  if (size < kHeadBytes || size > kMaxPostgresStartupBytes) {
    return malformed();
  }
  if (bytes.size() < size) {
    return std::nullopt;
  }
  PostgresStartup startup{.consumed = size,
                          .version = read_postgres_u32(bytes.substr(kLengthBytes))};
  const auto body = bytes.substr(kHeadBytes, size - kHeadBytes);
  if (startup.version == kPostgresTlsRequest || startup.version == kGssRequest) {
    startup.kind =
        startup.version == kGssRequest ? PostgresStartup::Kind::kGss : PostgresStartup::Kind::kTls;
    return body.empty() ? Result<std::optional<PostgresStartup>>{startup} : malformed();
  }
  if (startup.version == kCancelRequest) {
    startup.kind = PostgresStartup::Kind::kCancel;
    return startup;
  }
  if (startup.version >> 16U != kMajorVersion) {
    return malformed();
  }
  TRY_DO(read_parameters(body, startup));
  return startup;
}

std::string encode(const PostgresStartup& startup) {
  std::string body = postgres_u32(startup.version);
  for (const auto& [name, value] : startup.parameters) {
    body += name;
    body.push_back('\0');
    body += value;
    body.push_back('\0');
  }
  body.push_back('\0');
  return postgres_u32(static_cast<std::uint32_t>(body.size() + kLengthBytes)) + body;
}

Result<std::optional<PostgresMessage>> read_postgres_message(std::string_view bytes) {
  constexpr std::size_t kHeadBytes = 1 + kLengthBytes;
  if (bytes.size() < kHeadBytes) {
    return std::nullopt;
  }
  const std::uint32_t size = read_postgres_u32(bytes.substr(1));
  if (size < kLengthBytes || size > kMaxPostgresLoginBytes) {
    return malformed();
  }
  if (bytes.size() < 1 + std::size_t{size}) {
    return std::nullopt;
  }
  return PostgresMessage{.type = bytes.front(),
                         .body = bytes.substr(kHeadBytes, size - kLengthBytes),
                         .consumed = 1 + std::size_t{size}};
}

std::string postgres_message(char type, std::string_view body) {
  return concat(type, postgres_u32(static_cast<std::uint32_t>(body.size() + kLengthBytes)), body);
}

std::string postgres_error(std::string_view state, std::string_view text) {
  std::string body;
  const auto field = [&body](char kind, std::string_view value) {
    body.push_back(kind);
    append_printable(body, value);
    body.push_back('\0');
  };
  field('S', "FATAL");
  field('V', "FATAL");
  field('C', state);
  field('M', text);
  body.push_back('\0');
  return postgres_message('E', body);
}

}  // namespace atl::proxy::adapters
