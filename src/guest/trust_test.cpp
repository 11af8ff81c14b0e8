// Trust installed into trees of several distributions, by a child whose root each tree is.
#include "guest/trust.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "guest/trust_files.h"
#include "guest/trust_java.h"

namespace atl::guest {
namespace {

namespace fs = std::filesystem;

const std::string kRoot = "-----BEGIN CERTIFICATE-----\nROOT\n-----END CERTIFICATE-----\n";
const std::string kFirst = "-----BEGIN CERTIFICATE-----\nFIRST\n-----END CERTIFICATE-----\n";
const std::string kSecond = "-----BEGIN CERTIFICATE-----\nSECOND\n-----END CERTIFICATE-----\n";
const std::string kBundle = "/etc/ssl/certs/ca-certificates.crt";

class TrustTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root, to have a root directory of its own";
    }
    char name[] = "/tmp/atoll-trust-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override {
    if (!root_.empty()) {
      fs::remove_all(root_);
    }
  }

  void write(const std::string& path, std::string_view content) {
    fs::create_directories(fs::path{root_ + path}.parent_path());
    std::ofstream{root_ + path} << content;
  }
  std::string read(const std::string& path) const {
    std::ostringstream out;
    out << std::ifstream{root_ + path}.rdbuf();
    return out.str();
  }
  bool exists(const std::string& path) const {
    return fs::symlink_status(root_ + path).type() != fs::file_type::not_found;
  }
  // As a worker does it. Empty: it worked.
  std::string install(const std::string& pem, const std::string& hash = "0123abcd") {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      if (::chroot(root_.c_str()) != 0 || ::chdir("/") != 0) {
        ::_exit(2);
      }
      ::umask(0);
      FileChannel channel{Fd{ends[1]}, {}};
      const TrustRequest request{pem, pem.empty() ? "" : hash, ""};
      const auto done = install_trust(channel, request);
      if (!done) {
        (void)!::write(ends[1], done.error().message.data(), done.error().message.size());
      }
      ::_exit(done ? 0 : 1);
    }
    ::close(ends[1]);
    char message[1024] = {};
    (void)!::read(ends[0], message, sizeof message - 1);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status == 0 ? "" : concat("failed: ", std::string_view{message});
  }
  // Variables of a process that has these already.
  std::vector<std::string> variables(std::vector<std::string> env) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    if (::fork() == 0) {
      if (::chroot(root_.c_str()) != 0) {
        ::_exit(2);
      }
      add_trust_variables(env);
      std::string text;
      for (const auto& entry : env) {
        text += entry + "\n";
      }
      (void)!::write(ends[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
    ::wait(nullptr);
    std::vector<std::string> lines;
    for (const auto line : split(text, '\n')) {
      lines.emplace_back(line);
    }
    return lines;
  }

  std::string root_;
};

TEST_F(TrustTest, DebianGetsAnAnchorTheBundleAHashAndVariables) {
  write(kBundle, kRoot);
  write("/etc/environment", "LANG=C\nPIP_CERT=/mine");
  write("/etc/profile.d/x.sh", "");
  write("/etc/sudoers.d/x", "");
  EXPECT_EQ(install(kFirst), "");
  EXPECT_EQ(read(kTrustAnchor), kFirst);
  EXPECT_TRUE(read(kBundle).starts_with(kRoot));
  EXPECT_NE(read(kBundle).find(kFirst), std::string::npos);
  EXPECT_EQ(fs::read_symlink(root_ + "/etc/ssl/certs/atoll.pem"), kTrustAnchor);
  EXPECT_EQ(fs::read_symlink(root_ + "/etc/ssl/certs/0123abcd.0"), "atoll.pem");
  const std::string environment = read("/etc/environment");
  EXPECT_TRUE(environment.starts_with("LANG=C\nPIP_CERT=/mine\n"));
  EXPECT_NE(environment.find("SSL_CERT_FILE=\"" + kBundle + "\"\n"), std::string::npos);
  EXPECT_EQ(environment.find("PIP_CERT=\""), std::string::npos);
  EXPECT_NE(read("/etc/profile.d/atoll-trust.sh").find("export SSL_CERT_FILE"), std::string::npos);
  EXPECT_NE(read("/etc/sudoers.d/atoll-trust").find("SSL_CERT_FILE"), std::string::npos);
  EXPECT_EQ(fs::status(root_ + "/etc/sudoers.d/atoll-trust").permissions(), fs::perms{0440});
  EXPECT_EQ(fs::status(root_ + kTrustAnchor).permissions(), fs::perms{0644});

  const auto env = variables({"SSL_CERT_FILE=/mine", "A=1"});
  EXPECT_EQ(std::ranges::count(env, "SSL_CERT_FILE=/mine"), 1);
  EXPECT_EQ(std::ranges::count(env, "CURL_CA_BUNDLE=" + kBundle), 1);
  EXPECT_EQ(std::ranges::count(env, std::string{"NODE_EXTRA_CA_CERTS="} + kTrustAnchor), 1);
  EXPECT_FALSE(std::ranges::any_of(
      env, [](const auto& entry) { return entry == "SSL_CERT_FILE=" + kBundle; }));
}

TEST_F(TrustTest, IsRepeatedWithoutAChangeAndReplaced) {
  write(kBundle, kRoot);
  EXPECT_EQ(install(kFirst), "");
  struct stat before{};
  ::stat((root_ + kBundle).c_str(), &before);
  EXPECT_EQ(install(kFirst), "");
  struct stat after{};
  ::stat((root_ + kBundle).c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  // A package manager made the bundle anew, with our anchor in it.
  write(kBundle, kRoot + kFirst);
  EXPECT_EQ(install(kSecond, "ffff0000"), "");
  EXPECT_EQ(read(kTrustAnchor), kSecond);
  EXPECT_EQ(read(kBundle).find("FIRST"), std::string::npos) << read(kBundle);
  EXPECT_NE(read(kBundle).find(kSecond), std::string::npos);
  EXPECT_FALSE(exists("/etc/ssl/certs/0123abcd.0"));
  EXPECT_TRUE(exists("/etc/ssl/certs/ffff0000.0"));
}

TEST_F(TrustTest, IsTakenOutWithoutATrace) {
  write(kBundle, kRoot);
  write("/etc/environment", "LANG=C\n");
  write("/etc/profile.d/x.sh", "");
  EXPECT_EQ(install(kFirst), "");
  EXPECT_EQ(install(""), "");
  EXPECT_EQ(read(kBundle), kRoot);
  EXPECT_EQ(read("/etc/environment"), "LANG=C\n");
  for (const auto* path : {kTrustAnchor, kTrustVariables, "/etc/profile.d/atoll-trust.sh",
                           "/etc/ssl/certs/atoll.pem", "/etc/ssl/certs/0123abcd.0"}) {
    EXPECT_FALSE(exists(path)) << path;
  }
  EXPECT_EQ(variables({"A=1"}).front(), "A=1");
  EXPECT_EQ(variables({"A=1"}).size(), 2U);  // and the end
}

TEST_F(TrustTest, ATreeWithNothingGetsABundle) {
  EXPECT_EQ(install(kFirst), "");
  EXPECT_NE(read(kBundle).find(kFirst), std::string::npos);
  EXPECT_EQ(install(""), "");
  EXPECT_FALSE(exists(kBundle));
}

TEST_F(TrustTest, RedHatAndAlpineAreServedWhereTheirFilesAre) {
  const std::string extracted = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem";
  write(extracted, kRoot);
  fs::create_directories(root_ + "/etc/pki/tls/certs");
  fs::create_directories(root_ + "/etc/pki/ca-trust/source/anchors");
  fs::create_symlink(extracted, root_ + "/etc/pki/tls/certs/ca-bundle.crt");
  EXPECT_EQ(install(kFirst), "");
  EXPECT_NE(read(extracted).find(kFirst), std::string::npos);
  EXPECT_EQ(read("/etc/pki/ca-trust/source/anchors/atoll.crt"), kFirst);
  EXPECT_EQ(fs::read_symlink(root_ + "/etc/pki/tls/certs/ca-bundle.crt"), extracted);
  EXPECT_FALSE(exists(kBundle));
  const auto env = variables({});
  EXPECT_EQ(std::ranges::count(env, "SSL_CERT_FILE=" + extracted), 1);
}

TEST_F(TrustTest, HostileTreesAreNotFollowed) {
  write("/victim", "keep me");
  fs::create_directories(root_ + "/etc/ssl/certs");
  fs::create_symlink("/victim", root_ + kBundle);
  fs::create_directories(root_ + "/usr/local/share/ca-certificates");
  ASSERT_EQ(::mkfifo((root_ + "/etc/environment").c_str(), 0600), 0);
  EXPECT_EQ(install(kFirst), "");
  EXPECT_EQ(read("/victim"), "keep me");
  fs::remove(root_ + kTrustAnchor);
  fs::create_symlink("/victim", root_ + kTrustAnchor);
  EXPECT_NE(install(kSecond), "");
  EXPECT_EQ(read("/victim"), "keep me");
}

TEST_F(TrustTest, OptionsOfJavaAreKept) {
  write(kTrustVariables, "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/s\n");
  EXPECT_EQ(variables({"JAVA_TOOL_OPTIONS=-Xmx1g"}).front(),
            "JAVA_TOOL_OPTIONS=-Xmx1g -Djavax.net.ssl.trustStore=/s");
  EXPECT_EQ(variables({"JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/mine"}).front(),
            "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/mine");
}

TEST(TrustRequest, WhatIsNoCertificateIsRefused) {
  EXPECT_TRUE(decode_trust(encode(TrustRequest{kFirst, "0123abcd", "user"})));
  EXPECT_TRUE(decode_trust(encode(TrustRequest{})));
  for (const auto& bad :
       {TrustRequest{kFirst, "0123abc", ""}, TrustRequest{kFirst, "../../..", ""},
        TrustRequest{"x", "0123abcd", ""}, TrustRequest{kFirst + "more", "0123abcd", ""},
        TrustRequest{"", "0123abcd", ""}}) {
    EXPECT_FALSE(decode_trust(encode(bad)));
  }
}

TEST(JavaKeyStore, HasTheDigestThatJavaChecks) {
  EXPECT_EQ(hex(sha1("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex(sha1("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex(sha1(std::string(64, 'a'))), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
  const std::string store = java_key_store(
      "junk\n-----BEGIN CERTIFICATE-----\nAAEC\nAw==\n-----END CERTIFICATE-----\nmore");
  EXPECT_TRUE(store.starts_with(std::string("\xFE\xED\xFE\xED\0\0\0\2\0\0\0\1\0\0\0\2", 16)));
  EXPECT_NE(store.find(std::string("X.509\0\0\0\4\0\1\2\3", 13)), std::string::npos);
  EXPECT_EQ(java_key_store("none").size(), 12U + 20U);
}

TEST(TrustFiles, BlocksAreTakenOutWhereverTheyAre) {
  EXPECT_EQ(without_block("a<x>b<y>c", "<", ">"), "abc");
  EXPECT_EQ(without_block("a<x", "<", ">"), "a<x");
  EXPECT_EQ(without_text("aXbXc", "X"), "abc");
  EXPECT_EQ(without_text("abc", ""), "abc");
}

}  // namespace
}  // namespace atl::guest
