// The messages of PostgreSQL's protocol 3 that come before a session is open. Sans-IO and strict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace atl::proxy::adapters {

inline constexpr std::size_t kMaxPostgresStartupBytes = 10'000;  // the server's own limit
inline constexpr std::size_t kMaxPostgresLoginBytes = std::size_t{64} * 1024;

// What a client says first.
struct PostgresStartup {
  enum class Kind : std::uint8_t { kStart, kTls, kGss, kCancel };
  Kind kind = Kind::kStart;
  std::size_t consumed = 0;
  std::uint32_t version = 0;
  std::vector<std::pair<std::string, std::string>> parameters;  // of kStart

  const std::string* find(std::string_view name) const;
  void set(std::string_view name, std::string value);
};
// Nothing when more bytes are needed.
Result<std::optional<PostgresStartup>> read_postgres_startup(std::string_view bytes);
std::string encode(const PostgresStartup& startup);

// A message of the server, or of a session that is open: a letter, a length, a body.
struct PostgresMessage {
  char type = '\0';
  std::string_view body;  // borrows
  std::size_t consumed = 0;
};
Result<std::optional<PostgresMessage>> read_postgres_message(std::string_view bytes);
std::string postgres_message(char type, std::string_view body);
// A fatal error in the server's form. `state` is an SQLSTATE.
std::string postgres_error(std::string_view state, std::string_view text);
std::uint32_t read_postgres_u32(std::string_view bytes);  // 0 when there are fewer than four
std::string postgres_u32(std::uint32_t value);

inline constexpr std::uint32_t kPostgresTlsRequest = 80877103;

}  // namespace atl::proxy::adapters
