#include "http/test_server.h"

#include <array>
#include <cstdio>

#include "base/strings.h"

namespace atl::http {
namespace {

Result<std::string> shell(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) {
    return fail_errno("popen");
  }
  std::string all;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    all.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (status != 0) {
    return fail(Code::kInternal, concat("status ", status, ": ", all));
  }
  return all;
}

}  // namespace

Task<std::string> run_shell(io::OffloadPool& pool, std::string command) {
  co_return co_await pool.run([&command] { return shell(command); });
}

Task<std::unique_ptr<io::FdStream>> connect_raw(TestServer& server) {
  co_return co_await io::connect_tcp(server.reactor(), "127.0.0.1", server.server().port());
}

Task<std::string> read_to_end(io::Stream& stream) {
  std::string all;
  std::string buffer(std::size_t{64} * 1024, '\0');
  for (;;) {
    auto got = co_await stream.read(buffer);
    if (!got && got.error().code != Code::kUnavailable) {
      co_return fail(std::move(got).error());
    }
    if (!got || *got == 0) {
      co_return std::move(all);
    }
    all.append(buffer, 0, *got);
  }
}

Task<std::string> read_until(io::Stream& stream, std::string mark) {
  std::string all;
  char byte;
  while (all.find(mark) == std::string::npos) {
    CO_TRY(const auto got, co_await stream.read({&byte, 1}));
    if (got == 0) {
      co_return fail(Code::kUnavailable, "closed before the mark; got: " + all);
    }
    all += byte;
  }
  co_return std::move(all);
}

Task<std::string> exchange_raw(TestServer& server, std::string bytes) {
  CO_TRY(auto stream, co_await connect_raw(server));
  CO_TRY_DO(co_await stream->write(bytes));
  co_return co_await read_to_end(*stream);
}

}  // namespace atl::http
