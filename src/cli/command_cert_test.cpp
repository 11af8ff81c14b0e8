// `atoll cert dev`: what it leaves on the disk.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/fake_api.h"
#include "tls/context.h"

namespace atl::cli {
namespace {

class CertDev : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-cert-test-XXXXXX";
    ASSERT_NE(nullptr, ::mkdtemp(name));
    directory_ = name;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string path(std::string_view name) const { return concat(directory_, "/", name); }
  unsigned mode_of(std::string_view name) const {
    struct stat info{};
    return ::stat(path(name).c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
  }

  std::string directory_;
};

TEST_F(CertDev, MakesAUsableIdentityAndKeepsItsAuthority) {
  FakeApi api;
  const auto first = api.run({"cert", "dev", "--dir", directory_});
  EXPECT_EQ(0, first.status) << first.error;
  EXPECT_NE(std::string::npos, first.output.find("--tls-cert")) << first.output;
  EXPECT_EQ(0600U, mode_of("ca.key"));
  EXPECT_EQ(0600U, mode_of("server.key"));
  EXPECT_TRUE(tls::read_identity(path("server.crt"), path("server.key")));
  const auto authority = read_file(path("ca.crt"));
  const auto certificate = read_file(path("server.crt"));
  ASSERT_TRUE(authority && certificate);
  const auto second = api.run({"cert", "dev", "--dir", directory_, "--name", "box.lan,::1"});
  EXPECT_EQ(0, second.status) << second.error;
  EXPECT_EQ(*authority, read_file(path("ca.crt")));
  EXPECT_NE(*certificate, *read_file(path("server.crt")));
}

TEST_F(CertDev, CoversADomainAndSaysHowToUseIt) {
  FakeApi api;
  const auto made = api.run({"cert", "dev", "--dir", directory_, "--domain", "box.test"});
  EXPECT_EQ(0, made.status) << made.error;
  for (const auto* line : {"--domain box.test", "E2B_DOMAIN=box.test:7070", "NODE_EXTRA_CA_CERTS=/",
                           "SSL_CERT_FILE=/", "*.box.test"}) {
    EXPECT_NE(std::string::npos, made.output.find(line)) << line;
  }
}

TEST_F(CertDev, RefusesWhatIsNoName) {
  FakeApi api;
  EXPECT_NE(0, api.run({"cert", "dev", "--dir", directory_, "--domain", "*.a"}).status);
  EXPECT_NE(0, api.run({"cert", "dev", "--dir", directory_, "--name", "a b"}).status);
  EXPECT_NE(0, api.run({"cert", "dev", "--dir", directory_, "--name", ""}).status);
  EXPECT_NE(0, api.run({"cert", "prod", "--dir", directory_}).status);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

}  // namespace
}  // namespace atl::cli
