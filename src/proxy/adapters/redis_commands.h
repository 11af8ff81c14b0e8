// The client's side of Redis (RESP), rewritten as it streams by.
//
// Every command is looked at as far as its name. AUTH, and HELLO with AUTH, get the stored
// credential in place of whatever the client sent, so that their answers come in their place among
// pipelined ones. What would show the stored password (CONFIG, most of ACL) becomes a command that
// no server knows, and its error says why. Everything else passes unchanged. Sans-IO.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::proxy::adapters {

class RedisCommands {
 public:
  RedisCommands(std::string_view username, std::string_view password);
  ~RedisCommands();
  RedisCommands(const RedisCommands&) = delete;
  RedisCommands& operator=(const RedisCommands&) = delete;

  // Appends what goes upstream. kInvalidArgument: this is no RESP; nothing more may be sent.
  Result<> feed(std::string_view bytes, std::string& out);
  // The names of commands that were rewritten or refused since the last call, for the audit.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  // AUTH with the stored credential.
  std::string login() const;

 private:
  enum class State : std::uint8_t { kCommand, kName, kCollect, kHeader, kBody };
  Result<bool> step(std::string& out);  // false: more bytes are needed
  Result<bool> begin_command(std::string& out);
  Result<bool> read_argument(std::string& argument);
  Result<bool> read_name(std::string& out);
  Result<bool> collect(std::string& out);
  Result<bool> pass_header(std::string& out);
  bool pass_body(std::string& out);
  Result<> inline_command(std::string_view line, std::string& out);
  Result<> rewrite(std::vector<std::string> words, std::string& out);
  Result<> refuse(const std::vector<std::string>& words, std::string& out);
  Result<std::string_view> line(std::size_t max_bytes, bool& complete);
  std::string_view rest() const { return std::string_view{pending_}.substr(begin_); }
  void advance(std::size_t size) { begin_ += size; }

  std::string username_;
  std::string password_;
  std::string pending_;
  std::size_t begin_ = 0;  // of what is pending still; what is before goes once a feed
  State state_ = State::kCommand;
  std::uint64_t arguments_left_ = 0;
  std::uint64_t body_left_ = 0;
  std::string head_;  // of a command whose name is not known yet
  std::vector<std::string> words_;
  std::vector<std::string> notes_;
};

}  // namespace atl::proxy::adapters
