#include "control/public_names.h"

#include <gtest/gtest.h>

namespace atl::control {
namespace {

TEST(PublicNames, WithHostsOfTheirOwnServicesAreNotBelowThePath) {
  const auto names = make_public_names("apps.test", "https://API.apps.test", "::", 80, false);
  ASSERT_TRUE(names);
  EXPECT_EQ(find_target(*names, "rs-a--p80.apps.test", "/")->sandbox_id, "rs-a");
  EXPECT_FALSE(find_target(*names, "other.test", "/s/rs-a/80/"));
  // The server's own name is its own in any spelling.
  EXPECT_FALSE(find_target(*names, "api.apps.test", "/healthz"));
  EXPECT_FALSE(find_target(*names, "Api.Apps.test", "/s/rs-a/80/"));
}

TEST(PublicNames, WithoutADomainServicesAreBelowThePath) {
  const auto names = make_public_names("", "", "127.0.0.1", 7070, false);
  ASSERT_TRUE(names);
  const auto target = find_target(*names, "127.0.0.1:7070", "/s/rs-a/80/x");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->port, 80);
  EXPECT_EQ(target->prefix, "/s/rs-a/80");
  EXPECT_FALSE(find_target(*names, "127.0.0.1:7070", "/api/v1"));
}

}  // namespace
}  // namespace atl::control
