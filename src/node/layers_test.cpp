// Layers that come and go while cells live on them.
#include "node/cells.h"
#include "node/testing/node_fixture.h"

namespace atl::node {
namespace {

using CellLayersTest = testing::NodeFixture;

TEST_F(CellLayersTest, ACommitEndsTheCellAndKeepsItsTree) {
  ASSERT_TRUE(cells_->create(request("build-a")));
  ASSERT_TRUE(cells_->commit("build-a", "made"));
  EXPECT_TRUE(pool_.has_layer("made"));
  EXPECT_FALSE(pool_.has_upper("build-a"));
  EXPECT_FALSE(runtime_.exists("build-a"));
  EXPECT_FALSE(has_record("build-a"));
  EXPECT_TRUE(cells_->list("", 10).empty());
  const auto again = cells_->commit("build-a", "other");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kNotFound);
}

TEST_F(CellLayersTest, ALayerInUseIsNotRemoved) {
  ASSERT_TRUE(cells_->create(request("a")));
  const auto removed = cells_->remove_layer("base-1");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().reason, "layer_in_use");
  EXPECT_TRUE(pool_.has_layer("base-1"));
  ASSERT_TRUE(cells_->destroy({.id = "a"}));
  EXPECT_TRUE(cells_->remove_layer("base-1"));
  EXPECT_FALSE(pool_.has_layer("base-1"));
}

TEST_F(CellLayersTest, AStopKeepsDisksExceptThoseOfBuilds) {
  ASSERT_TRUE(cells_->create(request("a")));
  ASSERT_TRUE(cells_->create(request("build-b")));
  ASSERT_TRUE(cells_->stop());
  EXPECT_TRUE(pool_.has_upper("a"));
  EXPECT_FALSE(pool_.has_upper("build-b"));
}

TEST(LayerProtocol, RequestsAreChecked) {
  const auto commit = decode_request(encode(CommitRequest{.id = "build-a", .layer = "img-1"}));
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->commit.layer, "img-1");
  for (const char* bad : {"", "../x", ".x", "-x", "a/b", "A"}) {
    EXPECT_FALSE(decode_request(encode(CommitRequest{.id = "a", .layer = bad}))) << bad;
    EXPECT_FALSE(decode_request(encode_with_id(RequestKind::kRemoveLayer, bad))) << bad;
    EXPECT_FALSE(decode_request(encode_with_id(RequestKind::kBuildBuiltin, bad))) << bad;
  }
  EXPECT_FALSE(decode_request(encode(CommitRequest{.id = "../a", .layer = "x"})));
  EXPECT_TRUE(decode_request(encode_plain(RequestKind::kListLayers)));
}

TEST(LayerProtocol, EventsCarryTheirText) {
  const Event event{Event::Kind::kTemplateFailed, "name", "why"};
  const auto decoded = decode_event(encode_event(event));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->kind, event.kind);
  EXPECT_EQ(decoded->text, "why");
}

}  // namespace
}  // namespace atl::node
