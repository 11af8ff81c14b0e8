#include "runtime/cell_fixture.h"

#include <link.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/strings.h"

namespace atl::runtime::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kAnswerTimeoutMs = 60'000;

int add_library(dl_phdr_info* info, std::size_t, void* data) {
  const std::string_view name{info->dlpi_name};
  if (name.starts_with('/')) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
  }
  return 0;
}

// Everything that is loaded into this process, at the names it was loaded by.
void copy_libraries(const std::string& root) {
  std::vector<std::string> libraries;
  ::dl_iterate_phdr(add_library, &libraries);
  for (const std::string& path : libraries) {
    const fs::path target = root + path;
    fs::create_directories(target.parent_path());
    fs::copy_file(path, target, fs::copy_options::overwrite_existing);
  }
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

}  // namespace

void CellFixture::SetUp() {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  char pattern[] = "/tmp/atoll-runtime-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern), nullptr);
  directory_ = pattern;
  instance_ = concat("t", ::getpid());
  for (const char* name : {"layer", "layer/etc", "layer/tmp", "stage"}) {
    fs::create_directories(directory_ + "/" + name);
  }
  fs::permissions(layer(), fs::perms{0755});
  fs::permissions(layer() + "/tmp", fs::perms{01777});
  copy_libraries(layer());
  reopen();
}

NamespacesOptions CellFixture::options() const {
  return {
      .instance = instance_, .guest_binary = "/proc/self/exe", .stage_dir = directory_ + "/stage"};
}

void CellFixture::reopen() {
  runtime_.reset();
  auto opened = open_namespaces_runtime(options());
  ASSERT_TRUE(opened) << opened.error().message;
  runtime_ = *std::move(opened);
}

void CellFixture::TearDown() {
  if (runtime_ != nullptr) {
    for (const CellRecord& record : created_) {
      EXPECT_TRUE(runtime_->destroy(record));
    }
    const auto closed = runtime_->close();
    EXPECT_TRUE(closed) << closed.error().message;
  }
  if (!directory_.empty()) {
    fs::remove_all(directory_);
  }
}

CellSpec CellFixture::make_spec(const std::string& id) {
  const std::string upper = concat(directory_, "/upper-", id);
  fs::create_directories(upper + "/upper");
  fs::create_directories(upper + "/work");
  CellSpec spec;
  spec.id = id;
  spec.hostname = "box-" + id;
  spec.lower_dirs = {layer()};
  spec.upper_dir = upper;
  spec.uid_base = next_uid_base_;
  spec.guest_socket = socket_path(id);
  next_uid_base_ += 65536;
  return spec;
}

Result<Cell> CellFixture::create(const CellSpec& spec) {
  auto cell = runtime_->create(spec);
  if (cell) {
    created_.push_back(cell->record);
  }
  return cell;
}

Result<Cell> CellFixture::create(const std::string& id, const Limits& limits) {
  CellSpec spec = make_spec(id);
  spec.limits = limits;
  return create(spec);
}

std::string CellFixture::ask(const std::string& id, const std::string& line) {
  const Fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_un address = address_of(socket_path(id));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      !write_all(fd.get(), line + "\n")) {
    return "connect: failed";
  }
  std::string reply;
  char buffer[4096];
  for (;;) {
    pollfd waiting{fd.get(), POLLIN, 0};
    if (::poll(&waiting, 1, kAnswerTimeoutMs) <= 0) {
      return "connect: no answer";
    }
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) {
      return reply;
    }
    reply.append(buffer, static_cast<std::size_t>(got));
  }
}

void CellFixture::destroy(const CellRecord& record) {
  const auto destroyed = runtime_->destroy(record);
  EXPECT_TRUE(destroyed) << destroyed.error().message;
}

}  // namespace atl::runtime::testing
