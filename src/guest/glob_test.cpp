#include "guest/glob.h"

#include <gtest/gtest.h>

namespace atl::guest {
namespace {

TEST(Glob, Table) {
  struct Case {
    const char* pattern;
    const char* path;
    bool expected;
  };
  const Case cases[] = {
      {"", "a/b", true},
      {"*", "a", true},
      {"*", "a/b", false},
      {"*.py", "x.py", true},
      {"*.py", "a/x.py", false},
      {"**/*.py", "x.py", true},
      {"**/*.py", "a/x.py", true},
      {"**/*.py", "a/b/c/x.py", true},
      {"**/*.py", "a/x.pyc", false},
      {"a/**", "a/b", true},
      {"a/**", "a/b/c", true},
      {"a/**", "b/a", false},
      {"a/**", "a", true},
      {"**", "a/b/c", true},
      {"**/b/**/d", "a/b/c/d", true},
      {"**/b/**/d", "b/d", true},
      {"**/b/**/d", "a/c/d", false},
      {"a/?", "a/b", true},
      {"a/[b-d]", "a/c", true},
      {"a/[!b-d]", "a/c", false},
      {"./a", "a", true},
      {"a/**/**/b", "a/b", true},
      {"*", ".hidden", true},
      {"a*b", "a/b", false},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"X", "x", false},
      {"**/a/*/b", "a/a/x/b", true},
      {"**/a", "a/a/a", true},
  };
  for (const Case& test : cases) {
    EXPECT_EQ((Glob{test.pattern, false}.matches(test.path)), test.expected)
        << test.pattern << " " << test.path;
  }
  EXPECT_TRUE((Glob{"*.PY", true}.matches("x.py")));
}

}  // namespace
}  // namespace atl::guest
