#include "image/apt_sources.h"

#include <gtest/gtest.h>

namespace atl::image {
namespace {

using Sources = std::vector<AptSource>;

TEST(AptSources, OneLineEntriesOfDebianOnly) {
  const Sources sources = parse_one_line_sources(
      "# deb http://commented/debian bookworm main\n"
      "deb http://mirror.example/debian bookworm main contrib # a comment\n"
      "deb-src http://mirror.example/debian bookworm main\n"
      "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
      "https://mirror.example/debian-security bookworm-security main\n"
      "deb [signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/debian bookworm main\n"
      "deb https://docker.example/linux/debian bookworm stable\n"
      "deb https://cloud.example/apt cloud-sdk-bookworm main\n"
      "deb http://mirror.example/debian bookworm-backports main\n"
      "deb http://mirror.example/debian trixie main\n"
      "deb cdrom:[Debian]/ bookworm main\n"
      "deb file:/srv/debian bookworm main\n"
      "deb [ broken\n"
      "deb\n",
      "bookworm");
  EXPECT_EQ(sources, (Sources{{.uri = "http://mirror.example/debian", .suites = {"bookworm"}},
                              {.uri = "https://mirror.example/debian-security",
                               .suites = {"bookworm-security"}}}));
}

TEST(AptSources, Deb822Stanzas) {
  const Sources sources = parse_deb822_sources(
      "Types: deb deb-src\n"
      "# a comment inside\n"
      "URIs: http://mirror.example/debian\n"
      "  http://second.example/debian\n"
      "Suites: bookworm bookworm-updates bookworm-backports\n"
      "components: main contrib\n"
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
      "\n"
      "Types: deb\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n"
      "Enabled: no\n"
      "\n\n"
      "Types: deb\nURIs: https://node.example/node_20.x\nSuites: nodistro\nComponents: main\n"
      "\n"
      "Types: deb\nURIs: https://other.example/\nSuites: bookworm\nComponents: main\n"
      "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n",
      "bookworm");
  EXPECT_EQ(
      sources,
      (Sources{
          {.uri = "http://mirror.example/debian", .suites = {"bookworm", "bookworm-updates"}},
          {.uri = "http://second.example/debian", .suites = {"bookworm", "bookworm-updates"}}}));
}

TEST(AptSources, WrittenFormReadsBack) {
  const Sources sources{{.uri = "http://a.example/debian", .suites = {"bookworm"}},
                        {.uri = "http://b.example/debian", .suites = {"bookworm-security"}}};
  EXPECT_EQ(parse_deb822_sources(format_sources(sources), "bookworm"), sources);
}

TEST(AptSources, CredentialsStayOut) {
  const Sources stripped =
      without_credentials({{.uri = "https://user:p@ss@mirror.example/debian@x", .suites = {"s"}},
                           {.uri = "http://plain.example/a@b", .suites = {"s"}}});
  EXPECT_EQ(stripped[0].uri, "https://mirror.example/debian@x");
  EXPECT_EQ(stripped[1].uri, "http://plain.example/a@b");
}

TEST(AptSources, HostAlwaysHasTheSuite) {
  const Sources sources = host_debian_sources("no-such-suite");
  ASSERT_FALSE(sources.empty()) << "falls back to Debian's own mirror";
  EXPECT_EQ(sources[0].suites[0], "no-such-suite");
}

}  // namespace
}  // namespace atl::image
