// Text files that somebody else wrote: apt's sources, and a sandbox's passwd and group. The three
// texts are separated by NUL bytes; the first is also a user's name and a pattern.
#include "fuzz.h"
#include "guest/glob.h"
#include "guest/identity.h"
#include "image/apt_sources.h"

namespace atl::fuzz {

void host_files(std::string_view bytes) {
  Input input{bytes};
  const auto first = input.until('\0');
  const auto second = input.until('\0');
  const auto third = input.rest();
  for (const auto& sources : {image::parse_one_line_sources(first, "bookworm"),
                              image::parse_deb822_sources(first, "bookworm")}) {
    for (const auto& source : sources) {
      CHECK(source.uri.starts_with("http") && !source.suites.empty());
    }
    const auto again = image::parse_deb822_sources(image::format_sources(sources), "bookworm");
    CHECK(again.size() <= sources.size());
    CHECK(image::without_credentials(sources).size() <= sources.size());
  }
  if (const auto identity = guest::resolve_identity(first, second, third)) {
    CHECK(identity->home.starts_with('/') && !identity->shell.empty());
  }
  (void)guest::Glob{first, false}.matches(second);
  (void)guest::Glob{first, true}.matches(third);
}

Seeds host_files_seeds() {
  using namespace std::string_literals;
  return {"deb [signed-by=/x arch=amd64] http://deb.example/debian bookworm main contrib\n"s,
          "Types: deb\nURIs: http://u:p@deb.example/debian\nSuites: bookworm bookworm-updates\n"
          "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"s,
          "user\0root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\n\0"
          "user:x:1000:\nother:x:7:user,root\n"s,
          "1000:7\0user:x:1000:1000::relative:\n\0"s,
          "99999999999\0::::::\n:x:\n\0:::\n"s,
          "**/*.c\0a/b/c.c\0A/B.C"s,
          "[a-z]?*\\*\0ab\0"s};
}

}  // namespace atl::fuzz
