#include "proxy/socks5.h"

#include <cstring>

#include "base/strings.h"

namespace atl::proxy {
namespace {

constexpr std::uint8_t kVersion = 5;
constexpr std::uint8_t kLoginVersion = 1;
constexpr std::uint8_t kNoLogin = 0;
constexpr std::uint8_t kPassword = 2;
constexpr std::uint8_t kConnect = 1;
constexpr std::uint8_t kV4 = 1;
constexpr std::uint8_t kName = 3;
constexpr std::uint8_t kV6 = 4;
constexpr std::size_t kPortBytes = 2;
constexpr std::size_t kMaxFieldBytes = 255;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint8_t>(bytes[at]);
}

void put(std::string& out, std::uint8_t byte) {
  out += static_cast<char>(byte);
}

std::unexpected<Error> refused(std::string_view what) {
  return fail(Code::kUnavailable, concat("the upstream proxy ", what));
}

std::string_view reply_text(std::uint8_t code) {
  switch (code) {
    case 1:
      return "failed";
    case 2:
      return "does not allow the connection";
    case 3:
      return "cannot reach the network";
    case 4:
      return "cannot reach the host";
    case 5:
      return "was refused the connection";
    case 6:
      return "had no answer in time";
    default:
      return "answered with an error";
  }
}

}  // namespace

Socks5Client::Socks5Client(Endpoint target, std::string username, std::string password)
    : target_(target), username_(std::move(username)), password_(std::move(password)) {
  put(output_, kVersion);
  put(output_, username_.empty() ? 1 : 2);
  put(output_, kNoLogin);
  if (!username_.empty()) {
    put(output_, kPassword);
  }
}

Socks5Client::~Socks5Client() {
  ::explicit_bzero(password_.data(), password_.size());
  ::explicit_bzero(output_.data(), output_.size());
}

std::string Socks5Client::take_output() {
  return std::exchange(output_, {});
}

Result<> Socks5Client::feed(std::string_view bytes) {
  CHECK(bytes.size() == wanted_ && state_ != State::kOpen);
  switch (state_) {
    case State::kMethod:
      if (byte_at(bytes, 0) != kVersion) {
        return refused("does not speak SOCKS5");
      }
      return method_chosen(byte_at(bytes, 1));
    case State::kLogin:
      if (byte_at(bytes, 0) != kLoginVersion || byte_at(bytes, 1) != 0) {
        return refused("does not take the username and password");
      }
      send_request();
      return {};
    case State::kReplyHead:
      return reply_head(bytes);
    case State::kReplyName:
      state_ = State::kReplyRest;
      wanted_ = byte_at(bytes, 0) + kPortBytes;
      return {};
    case State::kReplyRest:
      state_ = State::kOpen;
      wanted_ = 0;
      return {};
    case State::kOpen:
      break;
  }
  return {};
}

Result<> Socks5Client::method_chosen(std::uint8_t method) {
  if (method == kNoLogin) {
    send_request();
    return {};
  }
  if (method != kPassword || username_.empty()) {
    return refused("takes none of our ways to log in");
  }
  if (username_.size() > kMaxFieldBytes || password_.empty() || password_.size() > kMaxFieldBytes) {
    return fail(Code::kFailedPrecondition,
                "the upstream proxy's username or password is empty or longer than 255 bytes");
  }
  put(output_, kLoginVersion);
  put(output_, static_cast<std::uint8_t>(username_.size()));
  output_ += username_;
  put(output_, static_cast<std::uint8_t>(password_.size()));
  output_ += password_;
  state_ = State::kLogin;
  wanted_ = 2;
  return {};
}

void Socks5Client::send_request() {
  put(output_, kVersion);
  put(output_, kConnect);
  put(output_, 0);
  const auto& bytes = target_.address.bytes();
  const std::size_t skipped = target_.address.is_v4() ? 12 : 0;
  put(output_, skipped != 0 ? kV4 : kV6);
  output_.append(bytes.begin() + static_cast<std::ptrdiff_t>(skipped), bytes.end());
  put(output_, static_cast<std::uint8_t>(target_.port >> 8));
  put(output_, static_cast<std::uint8_t>(target_.port & 0xffU));
  state_ = State::kReplyHead;
  wanted_ = 4;
}

Result<> Socks5Client::reply_head(std::string_view bytes) {
  if (byte_at(bytes, 0) != kVersion || byte_at(bytes, 2) != 0) {
    return refused("sent a malformed reply");
  }
  if (byte_at(bytes, 1) != 0) {
    return refused(reply_text(byte_at(bytes, 1)));
  }
  switch (byte_at(bytes, 3)) {
    case kV4:
      wanted_ = 4 + kPortBytes;
      break;
    case kV6:
      wanted_ = 16 + kPortBytes;
      break;
    case kName:
      state_ = State::kReplyName;
      wanted_ = 1;
      return {};
    default:
      return refused("sent a malformed reply");
  }
  state_ = State::kReplyRest;
  return {};
}

}  // namespace atl::proxy
