// A file that should be passed as a descriptor, and cannot be.
#include "guest/agent_fixture.h"
#include "guest/wire_passing.h"

namespace atl::guest {
namespace {

class AgentPassing : public AgentTest {};

TEST_F(AgentPassing, WhereADescriptorCannotBePassedTheBytesAreSent) {
  const std::string bytes = pattern_bytes(kLeastPassedBytes + 100);
  put(path("large"), bytes);
  TestClient client = connect();
  if (!client.refuse_descriptors()) {
    GTEST_SKIP() << "this kernel passes every descriptor";
  }
  client.send(Kind::kReadFile,
              encode(ReadFileRequest{
                  .path = path("large"), .offset = 50, .length = with_passing(UINT64_MAX)}));
  auto frame = client.receive();
  ASSERT_TRUE(frame && frame->kind == Kind::kFile);
  std::string got;
  while ((frame = client.receive()) && frame->kind == Kind::kData) {
    got += frame->payload;
  }
  ASSERT_TRUE(frame && frame->kind == Kind::kEnd);
  EXPECT_TRUE(got == bytes.substr(50));
  EXPECT_FALSE(client.take_passed());
}

}  // namespace
}  // namespace atl::guest
