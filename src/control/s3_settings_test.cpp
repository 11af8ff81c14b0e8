#include "control/s3_settings.h"

#include <gtest/gtest.h>

#include "control/s3_files.h"

namespace atl::control {
namespace {

TEST(S3Settings, GoThroughARowWithTheCredentialsSealedForIt) {
  const auto keyring = secrets::Keyring::parse(std::string(64, 'a')).value();
  S3Settings settings;
  settings.location = {
      .provider = "r2", .bucket = "data", .region = "auto", .endpoint_url = "https://x"};
  settings.prefix = "a/";
  const s3::Credentials credentials{.access_key = secrets::Plaintext{"id"},
                                    .secret_key = secrets::Plaintext{"hidden"},
                                    .session_token = secrets::Plaintext{"token"}};
  settings.sealed = seal_credentials(keyring, "vol-1", credentials).value();
  const std::string json = s3_settings_json(settings);
  EXPECT_FALSE(json.contains("hidden") || json.contains("token"));
  const auto back = parse_s3_settings(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->location.bucket, "data");
  EXPECT_EQ(back->prefix, "a/");
  EXPECT_EQ(open_credentials(keyring, "vol-1", back->sealed)->secret_key.reveal(), "hidden");
  EXPECT_EQ(open_credentials(keyring, "vol-1", back->sealed)->session_token.reveal(), "token");
  EXPECT_FALSE(open_credentials(keyring, "vol-2", back->sealed));
}

TEST(S3Settings, PrefixesAreClean) {
  EXPECT_EQ(clean_s3_prefix("").value(), "");
  EXPECT_EQ(clean_s3_prefix("/").value(), "");
  EXPECT_EQ(clean_s3_prefix("/a//b").value(), "a/b/");
  EXPECT_EQ(clean_s3_prefix("a/b/").value(), "a/b/");
  for (const std::string& bad : {std::string{"a/../b"}, std::string{"."}, std::string(600, 'x'),
                                 std::string{"\xFF"}, std::string("a\0b", 3)}) {
    EXPECT_FALSE(clean_s3_prefix(bad)) << bad;
  }
}

TEST(S3Key, StaysBelowThePrefix) {
  const S3Place place{.prefix = "team/"};
  EXPECT_EQ(s3_key(place, "/").value(), "team/");
  EXPECT_EQ(s3_key(place, "/a/b").value(), "team/a/b");
  EXPECT_EQ(s3_key(place, "/a/b/").value(), "team/a/b");
  EXPECT_EQ(s3_key({}, "/a b").value(), "a b");
  for (const std::string& bad :
       {std::string{""}, std::string{"a"}, std::string{"/../x"}, std::string{"/a/./b"},
        std::string{"/\xC3"}, std::string("/a\0b", 4), "/" + std::string(1024, 'x')}) {
    EXPECT_FALSE(s3_key(place, bad)) << bad;
  }
}

TEST(S3Version, IsThatOfTheContent) {
  EXPECT_EQ(s3_version("a"), s3_version("a"));
  EXPECT_NE(s3_version("a"), s3_version("b"));
  s3::ObjectInfo object{.key = "k", .size = 3, .etag = "a", .modified = 1'234'567};
  const auto info = s3_file_info({.uid = 5, .gid = 6}, "/d/f", object);
  EXPECT_EQ(info.name, "f");
  EXPECT_EQ(info.uid, 5U);
  EXPECT_EQ(info.modified_unix_ns, 1'234'000'000'000);
}

}  // namespace
}  // namespace atl::control
