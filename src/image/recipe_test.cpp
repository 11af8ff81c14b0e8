#include "image/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "image/room.h"

namespace atl::image {
namespace {

TEST(Recipe, EveryPartChangesTheVersion) {
  std::set<std::string> versions{recipe_version(default_recipe())};
  const auto changed = [&](const auto& change) {
    Recipe recipe = default_recipe();
    change(recipe);
    return versions.insert(recipe_version(recipe)).second;
  };
  EXPECT_TRUE(changed([](Recipe& r) { r.name = "other"; }));
  EXPECT_TRUE(changed([](Recipe& r) { r.suite = "trixie"; }));
  EXPECT_TRUE(changed([](Recipe& r) { r.packages.push_back("vim"); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.packages.pop_back(); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.dpkg_options.pop_back(); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.files[0].path += "x"; }));
  EXPECT_TRUE(changed([](Recipe& r) { r.files[0].content += "x"; }));
  EXPECT_TRUE(changed([](Recipe& r) { r.files[0].mode = 0600; }));
  EXPECT_TRUE(changed([](Recipe& r) { r.links.push_back({"opt/a", "/b"}); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.links.push_back({"opt/a", "/c"}); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.emptied_directories.pop_back(); }));
  EXPECT_TRUE(changed([](Recipe& r) { r.removed_files.pop_back(); }));
  EXPECT_EQ(recipe_version(default_recipe()), recipe_version(default_recipe()));
}

TEST(Recipe, NamesAndIds) {
  const BuiltinTemplate builtin = default_template();
  EXPECT_EQ(builtin.name, "default");
  EXPECT_EQ(builtin.version.size(), 12U);
  EXPECT_EQ(layer_id(builtin), "default-" + builtin.version);
  EXPECT_TRUE(find_recipe("base")) << "the alias";
  ASSERT_TRUE(find_recipe("code-interpreter-v1"));
  EXPECT_NE(recipe_version(*find_recipe("code-interpreter-v1")), builtin.version);
  ASSERT_TRUE(find_recipe("desktop"));
  EXPECT_EQ(find_recipe("../default").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace atl::image
