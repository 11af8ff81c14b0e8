// Trees that a cell may look at: there, whole, and of no other use.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/strings.h"
#include "runtime/cell_fixture.h"
#include "runtime/test_guest.h"

namespace atl::runtime::testing {
namespace {

PROBE(view_owner) {
  struct stat status{};
  return ::lstat(argument.c_str(), &status) == 0 ? concat(status.st_uid, ":", status.st_gid)
                                                 : std::strerror(errno);
}

PROBE(view_write) {
  const int fd = ::open(argument.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  return fd >= 0 ? "written" : std::strerror(errno);
}

PROBE(view_flags) {
  struct statvfs status{};
  if (::statvfs(argument.c_str(), &status) != 0) {
    return std::strerror(errno);
  }
  const auto has = [&](unsigned long flag, const char* name) {
    return (status.f_flag & flag) != 0 ? name : "";
  };
  return concat(has(ST_RDONLY, "ro "), has(ST_NOSUID, "nosuid "), has(ST_NODEV, "nodev "),
                has(ST_NOEXEC, "noexec"));
}

class CellViewsTest : public CellFixture {};

TEST_F(CellViewsTest, AreReadOnlyAndRunNothing) {
  CellSpec spec = make_spec("viewer");
  for (const char* name : {"/one", "/two"}) {
    const std::string tree = directory() + name;
    ASSERT_EQ(::mkdir(tree.c_str(), 0700), 0);
    const Fd file{::open((tree + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    ASSERT_TRUE(file);
    ASSERT_EQ(::fchown(file.get(), 1000, 1001), 0);
    spec.view_dirs.push_back(tree);
  }
  const auto cell = create(spec);
  ASSERT_TRUE(cell) << cell.error().message;
  for (const char* view : {"/views/0", "/views/1"}) {
    const std::string file = concat(view, "/file");
    EXPECT_EQ(ask("viewer", "view_owner " + file), "1000:1001");
    EXPECT_EQ(ask("viewer", "view_write " + file), std::strerror(EROFS));
    EXPECT_EQ(ask("viewer", concat("view_write ", view, "/new")), std::strerror(EROFS));
    EXPECT_EQ(ask("viewer", concat("view_flags ", view)), "ro nosuid nodev noexec");
  }
  EXPECT_EQ(ask("viewer", "view_write /views/new"), std::strerror(EROFS));
  EXPECT_EQ(ask("viewer", "view_owner /views/2"), std::strerror(ENOENT));
}

TEST_F(CellViewsTest, OneThatIsNotThereIsAnError) {
  CellSpec spec = make_spec("viewer");
  spec.view_dirs = {directory() + "/nowhere"};
  EXPECT_FALSE(create(spec));
  spec.view_dirs.assign(131, directory());
  EXPECT_FALSE(create(spec));
}

}  // namespace
}  // namespace atl::runtime::testing
