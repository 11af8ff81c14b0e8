#include "layers/plain_volumes.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "layers/directory.h"
#include "layers/remove_tree.h"

namespace atl::layers {
namespace {

class PlainVolumes final : public Volumes {
 public:
  explicit PlainVolumes(Backend backend) : backend_(backend) {}

  Backend backend() const override { return backend_; }
  bool has_quota() const override { return false; }
  bool destroys_quickly() const override { return false; }

  Result<> create(int parent_fd, const std::string& name, std::uint64_t) override {
    if (::mkdirat(parent_fd, name.c_str(), 0755) != 0) {
      return fail_errno(concat("creating directory ", name));
    }
    return {};
  }

  bool snapshots_whole() const override { return false; }
  Result<> snapshot(const TreePlace& from, const TreePlace& to, bool) override {
    return copy_tree(from, to);
  }

  // The file system has no word for one directory.
  Result<> sync(const TreePlace& volume) override { return commit(volume.parent_fd); }
  std::uint64_t unwritten_bytes(const TreePlace&) override { return ~0ULL; }
  Result<> commit(int fd) override {
    if (::syncfs(fd) != 0) {
      return fail_errno("making the pool durable");
    }
    return {};
  }

  Result<> destroy(int parent_fd, const std::string& name) override {
    return remove_tree(parent_fd, name);
  }

  // A directory cannot be made read-only as a whole; whoever mounts it does that.
  Result<> seal(int, const std::string&) override { return {}; }
  Result<> unseal(int, const std::string&) override { return {}; }

  Result<> set_limit(int, const std::string&, std::uint64_t) override {
    return fail(Code::kUnimplemented,
                concat("disk limits need btrfs; this pool is ", backend_name(backend_)));
  }

  Result<UpperUsage> usage(int parent_fd, const std::string& name) override {
    TRY(const std::uint64_t used_bytes, measure_tree(parent_fd, name));
    return UpperUsage{.used_bytes = used_bytes};
  }

  Result<std::vector<std::string>> collect() override { return std::vector<std::string>{}; }

 private:
  Backend backend_;
};

// An unnamed file with one block in it.
Result<Fd> make_probe_file(int root_fd) {
  Fd fd{::openat(root_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!fd) {
    return fail_errno("making a temporary file in the pool");
  }
  TRY_DO(write_all(fd.get(), std::string(4096, 'x')));
  return fd;
}

bool can_reflink(int root_fd) {
  const auto from = make_probe_file(root_fd);
  const auto to = make_probe_file(root_fd);
  return from && to && ::ioctl(to->get(), FICLONE, from->get()) == 0;
}

}  // namespace

Result<std::unique_ptr<Volumes>> open_plain_volumes(int root_fd) {
  return std::make_unique<PlainVolumes>(can_reflink(root_fd) ? Backend::kReflink : Backend::kCopy);
}

}  // namespace atl::layers
