// Names of volumes: one for each, of one team, free again when the volume is gone.
#include "control/volume_names.h"

#include "control/volumes_fixture.h"

namespace atl::control {
namespace {

class VolumeNamesTest : public VolumesTest {
 protected:
  void SetUp() override {
    VolumesTest::SetUp();
    begin_names();
  }
  void TearDown() override {
    names_.reset();
    VolumesTest::TearDown();
  }
  void begin_names() {
    names_ =
        std::make_unique<VolumeNames>(StoreAccess{*store_, nullptr}, *volumes_, simulation_.clock);
    ASSERT_TRUE(simulation_.run(names_->start()));
  }
  Result<VolumeView> make_named(std::string name) {
    return simulation_.run(names_->create(kTeam, std::move(name), {}));
  }

  std::unique_ptr<VolumeNames> names_;
};

TEST_F(VolumeNamesTest, AreOneTeamsAndDurable) {
  const auto made = make_named("data");
  ASSERT_TRUE(made);
  EXPECT_EQ(make_named("data").error().code, Code::kAlreadyExists);
  EXPECT_EQ(make_named("a/b").error().code, Code::kInvalidArgument);
  EXPECT_EQ(names_->find(kTeam, "data"), made->volume.id);
  EXPECT_EQ(names_->find("other", "data"), std::nullopt);
  EXPECT_EQ(names_->find("other", made->volume.id), std::nullopt);
  const std::string unnamed = make();
  EXPECT_EQ(names_->find(kTeam, unnamed), unnamed);
  EXPECT_EQ(names_->name_of(kTeam, unnamed), unnamed);
  names_.reset();
  crash();
  begin_names();
  EXPECT_EQ(names_->find(kTeam, "data"), made->volume.id);
  EXPECT_EQ(names_->name_of(kTeam, made->volume.id), "data");
}

TEST_F(VolumeNamesTest, AreFreeWhenTheVolumeIsGone) {
  const auto first = make_named("data");
  ASSERT_TRUE(first);
  ASSERT_TRUE(remove(first->volume.id));
  EXPECT_EQ(names_->find(kTeam, "data"), std::nullopt);
  const auto second = make_named("data");
  ASSERT_TRUE(second);
  ASSERT_TRUE(remove(second->volume.id));
  ASSERT_TRUE(simulation_.run(names_->forget(kTeam, second->volume.id)));
  EXPECT_TRUE(store_->list_records("volume-name")->empty());
}

}  // namespace
}  // namespace atl::control
