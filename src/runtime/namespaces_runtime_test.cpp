// The Runtime contract against the real backend: real namespaces, cgroups and overlays.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

PROBE(ping) {
  return "pong " + std::to_string(::getppid());
}

PROBE(read) {
  std::ifstream file{argument};
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : "unreadable";
}

using RuntimeTest = CellFixture;

TEST_F(RuntimeTest, CreatedCellAnswers) {
  const auto cell = create("one");
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(ask("one", "ping"), "pong 1");
  EXPECT_EQ(ask("one", "read /etc/hostname"), "box-one\n");
}

}  // namespace
}  // namespace atl::runtime::testing
