// A runtime of its own, a layer with what the test guest needs, and cells that are destroyed with
// the test, also when it fails.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/room.h"

namespace atl::runtime::testing {

class CellFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // A spec with a new upper directory and a listening socket of its own.
  CellSpec make_spec(const std::string& id);
  Result<Cell> create(const std::string& id, const Limits& limits = {});
  Result<Cell> create(const CellSpec& spec);
  // The answer of a probe inside the cell; "connect: ..." when the cell does not answer.
  std::string ask(const std::string& id, const std::string& line);
  void destroy(const CellRecord& record);

  std::string directory() const { return directory_; }
  std::string layer() const { return directory_ + "/layer"; }
  std::string instance() const { return instance_; }
  Runtime& runtime() { return *runtime_; }
  NamespacesOptions options() const;
  void reopen();

 private:
  std::string socket_path(const std::string& id) const { return directory_ + "/" + id + ".sock"; }

  std::string directory_;
  std::string instance_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<CellRecord> created_;
  std::uint32_t next_uid_base_ = 0x20000000;
};

}  // namespace atl::runtime::testing
