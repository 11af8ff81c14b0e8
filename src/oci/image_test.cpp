// Layers, whiteouts, hard links, layouts and archives, good ones and hostile ones.
#include <map>

#include "base/json.h"
#include "oci/context.h"
#include "oci/fetch.h"
#include "oci/image_tree.h"
#include "oci/test_archive.h"

namespace atl::oci {
namespace {

// path -> "type content mode uid:gid", in a form that reads well in a failure.
using Listing = std::map<std::string, std::string>;

Result<Listing> drain(TreeSource& tree) {
  Listing listing;
  for (;;) {
    TRY(const auto entry, tree.next());
    if (!entry) {
      return listing;
    }
    std::string content = entry->link_target;
    char buffer[7];
    while (entry->type == EntryType::kFile) {
      TRY(const std::size_t got, tree.read(buffer));
      if (got == 0) {
        break;
      }
      content.append(buffer, got);
    }
    if (entry->type == EntryType::kHardlink && !listing.contains(entry->link_target)) {
      return fail(Code::kInternal, "a hard link came before its target");
    }
    const char type = "-dlh?"[static_cast<int>(entry->type)];
    if (!listing.emplace(entry->path, concat(type, " ", content)).second) {
      return fail(Code::kInternal, concat("twice: ", entry->path));
    }
  }
}

Result<Listing> merged(const std::vector<LayerBlob>& layers, ImageTreeLimits limits = {}) {
  TRY(const auto tree, open_image_tree(layers, limits));
  return drain(*tree);
}

TEST(ImageTree, UpperEntriesReplaceLowerOnes) {
  const TestDirectory directory;
  const auto listing = merged({
      make_layer(directory, {{"./", 'd'},
                             {"etc", 'd'},
                             {"etc/a", '-', "old"},
                             {"b", '-', "b"},
                             {"dir", 'd'},
                             {"dir/x", '-', "x"},
                             {"u\xc3\xa4", '-', "umlaut"}}),
      make_layer(directory, {{"etc", 'd', "", 0700}, {"/etc/a", '-', "new"}, {"dir", '-', "file"}},
                 Packing::kZstd),
      make_layer(directory, {}, Packing::kPlain),
  });
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(*listing, (Listing{{"etc", "d "},
                               {"etc/a", "- new"},
                               {"b", "- b"},
                               {"dir", "- file"},
                               {"u\xc3\xa4", "- umlaut"}}));
}

TEST(ImageTree, WhiteoutsHideLowerLayersOnly) {
  const TestDirectory directory;
  const auto listing = merged({
      make_layer(directory, {{"a", 'd'},
                             {"a/1", '-', "1"},
                             {"a/2", '-', "2"},
                             {"b", '-', "b"},
                             {"c", 'd'},
                             {"c/old", '-', "o"},
                             {"c/sub", 'd'},
                             {"c/sub/x", '-', ""},
                             {"ab", '-', "stays"}}),
      // The opaque marker stands behind what it must not hide.
      make_layer(directory, {{"c", 'd'},
                             {"c/new", '-', "n"},
                             {"c/.wh..wh..opq"},
                             {".wh.b"},
                             {"a/.wh.1"},
                             {"b", '-', "again"}}),
      make_layer(directory, {{".wh.a"}}),
  });
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(*listing,
            (Listing{{"b", "- again"}, {"c", "d "}, {"c/new", "- n"}, {"ab", "- stays"}}));
}

TEST(ImageTree, HardLinksSurviveTheLossOfTheirFirstName) {
  const TestDirectory directory;
  const auto listing = merged({
      make_layer(
          directory,
          {{"one", '-', "data"}, {"two", 'h', "one"}, {"three", 'h', "two"}, {"low", '-', "low"}}),
      make_layer(directory, {{".wh.one"}, {"link", 'h', "low"}}),
  });
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(*listing,
            (Listing{{"two", "- data"}, {"three", "h two"}, {"low", "- low"}, {"link", "h low"}}));
  EXPECT_FALSE(merged({make_layer(directory, {{"x", 'h', "nowhere"}})}));
}

TEST(ImageTree, PathsThroughSymlinksLeadWhereTheyPoint) {
  const TestDirectory directory;
  const auto listing = merged({
      make_layer(directory, {{"usr", 'd'},
                             {"usr/bin", 'd'},
                             {"bin", 'l', "usr/bin"},
                             {"up", 'l', "../../../usr"},
                             {"loop", 'l', "loop"}}),
      make_layer(directory, {{"bin/tool", '-', "t"}, {"up/x", '-', "x"}, {"loop/y", '-', "y"}}),
  });
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(listing->at("usr/bin/tool"), "- t");
  EXPECT_EQ(listing->at("usr/x"), "- x");
  EXPECT_EQ(listing->at("bin"), "l usr/bin");
}

TEST(ImageTree, KernelDirectoriesAndDevicesAreDropped) {
  const TestDirectory directory;
  const auto listing = merged({make_layer(directory, {{"dev", 'd'},
                                                      {"dev/null", 'c'},
                                                      {"dev/x", '-', ""},
                                                      {"proc/1", '-', ""},
                                                      {"device", '-', "d"},
                                                      {"node", 'c'}})});
  ASSERT_TRUE(listing);
  EXPECT_EQ(*listing, (Listing{{"dev", "d "}, {"device", "- d"}}));
}

TEST(ImageTree, HostileLayersAreRefused) {
  const TestDirectory directory;
  for (const char* path : {"../x", "a/../../x", "a/..", ".."}) {
    const auto listing = merged({make_layer(directory, {{path, '-', "x"}})});
    ASSERT_FALSE(listing) << path;
    EXPECT_EQ(listing.error().reason, "path_escapes") << path;
  }
  EXPECT_FALSE(merged({make_layer(directory, {{"x", 'h', "../y"}})}));
  EXPECT_FALSE(merged({make_layer(directory, {{"x", '-', "", 0644, 70000, 0}})}));
  std::string deep = "d";
  for (int i = 0; i < 300; ++i) {
    deep += "/d";
  }
  EXPECT_FALSE(merged({make_layer(directory, {{deep, '-', ""}})}));
}

TEST(ImageTree, LimitsEndBombs) {
  const TestDirectory directory;
  const auto bomb = make_layer(directory, {{"zeros", '-', std::string(8U << 20, '\0')}});
  const auto listing = merged({bomb}, {.unpacked_bytes = 1U << 20});
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().reason, "archive_too_large");
  const auto two = make_layer(directory, {{"a"}, {"b"}});
  EXPECT_FALSE(merged({two, two}, {.entries = 3}));
  EXPECT_TRUE(merged({two, two}, {.entries = 4}));
}

TEST(ImageTree, AWrongDigestIsRefused) {
  const TestDirectory directory;
  auto layer = make_layer(directory, {{"a", '-', "x"}});
  layer.sha256[0] = layer.sha256[0] == '0' ? '1' : '0';
  const auto listing = merged({layer});
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().reason, "bad_digest");
}

TEST(ImageTree, GarbageIsRefused) {
  const TestDirectory directory;
  const std::string path = directory.at("garbage");
  ASSERT_TRUE(replace_file(path, std::string(5000, 'x'), {}));
  EXPECT_FALSE(merged({{path, hex(sha256(std::string(5000, 'x')))}}));
}

// --- layouts -----------------------------------------------------------------------------------

class LayoutTest : public ::testing::Test {
 protected:
  std::string add_blob(const std::string& text) {
    std::filesystem::create_directories(directory_.at("blobs/sha256"));
    const std::string digits = hex(sha256(text));
    EXPECT_TRUE(replace_file(directory_.at("blobs/sha256/" + digits), text, {}));
    return "sha256:" + digits;
  }
  std::string add_manifest(const std::string& architecture) {
    const std::string config =
        add_blob(Json::object({{"architecture", architecture},
                               {"config",
                                *Json::parse(R"({"Env":["A=1","B=x=y"],"WorkingDir":"/w","User":"u",
                                     "Cmd":["c"],"Entrypoint":["e"],
                                     "ExposedPorts":{"80/tcp":{}},"Labels":{"l":"v"}})")}})
                     .dump());
    const std::string layer = add_blob("layer");
    Json layers = Json::array();
    layers.push(Json::object({{"digest", layer}, {"mediaType", "x.tar+gzip"}}));
    return add_blob(Json::object({{"config", Json::object({{"digest", config}})},
                                  {"layers", std::move(layers)}})
                        .dump());
  }
  void write_index(Json manifests) {
    ASSERT_TRUE(replace_file(directory_.at("index.json"),
                             Json::object({{"manifests", std::move(manifests)}}).dump(), {}));
  }
  static Json descriptor(const std::string& digest, const std::string& architecture) {
    return Json::object(
        {{"digest", digest},
         {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
         {"platform", Json::object({{"os", "linux"}, {"architecture", architecture}})}});
  }

  TestDirectory directory_;
};

TEST_F(LayoutTest, TakesTheManifestOfThisMachine) {
  const std::string other = add_manifest("s390x");
  const std::string mine = add_manifest(machine_architecture());
  Json manifests = Json::array();
  manifests.push(descriptor(other, "s390x"));
  manifests.push(descriptor(mine, machine_architecture()));
  write_index(std::move(manifests));
  const auto image = open_image_layout(directory_.path());
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ("sha256:" + image->digest, mine);
  ASSERT_EQ(image->layers.size(), 1U);
  EXPECT_EQ(image->config.env.at("B"), "x=y");
  EXPECT_EQ(image->config.user, "u");
  EXPECT_EQ(image->config.exposed_ports, std::vector<std::string>{"80/tcp"});
  EXPECT_EQ(config_from_json(to_json(image->config)), image->config);
}

TEST_F(LayoutTest, RefusesWhatIsNotForThisMachine) {
  Json manifests = Json::array();
  manifests.push(descriptor(add_manifest("s390x"), "s390x"));
  write_index(std::move(manifests));
  const auto image = open_image_layout(directory_.path());
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("nothing for linux/"), std::string::npos);
}

TEST_F(LayoutTest, RefusesAChangedBlobAndPathsInDigests) {
  const std::string digest = add_manifest(machine_architecture());
  Json manifests = Json::array();
  manifests.push(descriptor(digest, machine_architecture()));
  write_index(std::move(manifests));
  ASSERT_TRUE(replace_file(directory_.at("blobs/sha256/" + digest.substr(7)), "{}", {}));
  const auto image = open_image_layout(directory_.path());
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().reason, "bad_digest");
  for (const char* bad : {"sha256:../../etc/passwd", "md5:00", "", "sha256:00"}) {
    Json list = Json::array();
    list.push(descriptor(bad, machine_architecture()));
    write_index(std::move(list));
    EXPECT_FALSE(open_image_layout(directory_.path())) << bad;
  }
}

TEST(Reference, FormsAndRegistries) {
  EXPECT_EQ(*check_reference("docker://alpine:3"), "alpine:3");
  for (const char* bad : {"", "-x", "/a", "a b", "a//b", "a;b", "a\nb"}) {
    EXPECT_FALSE(check_reference(bad)) << bad;
  }
  EXPECT_EQ(registry_of("alpine"), "docker.io");
  EXPECT_EQ(registry_of("team/app"), "docker.io");
  EXPECT_EQ(registry_of("r.example/team/app"), "r.example");
  EXPECT_EQ(registry_of("localhost/app"), "localhost");
  EXPECT_TRUE(is_loopback_registry("127.0.0.1:5000"));
  EXPECT_TRUE(is_loopback_registry("localhost:5000"));
  EXPECT_TRUE(is_loopback_registry("[::1]:5000"));
  EXPECT_FALSE(is_loopback_registry("127.0.0.1.example.com"));
  EXPECT_FALSE(is_loopback_registry("localhost.example.com:5000"));
}

// --- build contexts ----------------------------------------------------------------------------

class ContextTest : public ::testing::Test {
 protected:
  std::shared_ptr<BuildContext> open(const std::vector<TestEntry>& entries) {
    const Fd fd = open_file(make_tar(directory_.at("context"), entries, Packing::kGzip));
    auto context = BuildContext::open(fd.get(), directory_.path(), {});
    EXPECT_TRUE(context) << context.error().message;
    return context ? *context : nullptr;
  }
  // "root: path=content" of everything.
  static std::string show(const BuildContext& context, const CopyRequest& request) {
    const auto plans = plan_copy(context, request);
    if (!plans) {
      return plans.error().message;
    }
    std::string out;
    for (const auto& plan : plans->plans) {
      out += plan.root + ":";
      const auto listing = drain(*open_copy_tree(context, plan));
      EXPECT_TRUE(listing) << listing.error().message;
      for (const auto& [path, content] : *listing) {
        out += concat(" ", path, "=", content);
      }
      out += "\n";
    }
    for (const auto& archive : plans->archives) {
      out += concat("unpack ", archive.entry.path, "\n");
    }
    return out;
  }
  TestDirectory directory_;
};

TEST_F(ContextTest, CopySemantics) {
  const auto context = open({{"a.txt", '-', "A"},
                             {"b.txt", '-', "B"},
                             {"src", 'd'},
                             {"src/x", '-', "X"},
                             {"src/sub", 'd'},
                             {"src/sub/y", '-', "Y"},
                             {"link", 'l', "a.txt"},
                             {"hard", 'h', "a.txt"},
                             {"s.log", '-', "L"},
                             {".dockerignore", '-', "*.log\n"}});
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(show(*context, {{"a.txt"}, "/d"}), "/: d=- A\n");
  EXPECT_EQ(show(*context, {{"a.txt"}, "/d/"}), "/d: a.txt=- A\n");
  EXPECT_EQ(show(*context, {{"a.txt"}, "/d", true}), "/d: a.txt=- A\n");
  EXPECT_EQ(show(*context, {{"src"}, "/d"}), "/d: sub=d  sub/y=- Y x=- X\n");
  EXPECT_EQ(show(*context, {{"src/"}, "/d/"}), "/d: sub=d  sub/y=- Y x=- X\n");
  EXPECT_EQ(show(*context, {{"?.txt", "link"}, "/d/"}), "/d: a.txt=- A b.txt=- B link=l a.txt\n");
  EXPECT_EQ(show(*context, {{"hard"}, "/h"}), "/: h=- A\n");
  EXPECT_EQ(show(*context, {{}, "/d/", false, {{"EOF", "text"}}}), "/d: EOF=- text\n");
  EXPECT_NE(show(*context, {{"a.txt", "b.txt"}, "/d"}).find("must end with a slash"),
            std::string::npos);
  EXPECT_NE(show(*context, {{"s.log"}, "/d"}).find("not in the build context"), std::string::npos);
  EXPECT_NE(show(*context, {{"../x"}, "/d"}).find("outside of the build context"),
            std::string::npos);
  EXPECT_NE(show(*context, {{"https://x/y"}, "/d"}).find("no network"), std::string::npos);
}

TEST_F(ContextTest, TheDigestFollowsTheContent) {
  const CopyRequest request{{"a"}, "/d"};
  const auto first = plan_copy(*open({{"a", '-', "1"}}), request);
  const auto same = plan_copy(*open({{"a", '-', "1"}}), request);
  const auto other = plan_copy(*open({{"a", '-', "2"}}), request);
  const auto mode = plan_copy(*open({{"a", '-', "1", 0755}}), request);
  EXPECT_EQ(first->plans[0].digest, same->plans[0].digest);
  EXPECT_NE(first->plans[0].digest, other->plans[0].digest);
  EXPECT_NE(first->plans[0].digest, mode->plans[0].digest);
}

TEST_F(ContextTest, AddUnpacksArchives) {
  make_tar(directory_.at("inner"), {{"in", 'd'}, {"in/f", '-', "deep"}}, Packing::kGzip);
  const auto bytes = read_file(directory_.at("inner"));
  ASSERT_TRUE(bytes);
  const auto context = open({{"t.tar.gz", '-', *bytes}, {"plain", '-', "no archive"}});
  EXPECT_EQ(show(*context,
                 {.sources = {"t.tar.gz", "plain"}, .destination = "/d/", .unpack_archives = true}),
            "/d: plain=- no archive\nunpack t.tar.gz\n");
  const auto tree = open_archive_tree(*context, context->entries().at("t.tar.gz"), {});
  ASSERT_TRUE(tree);
  EXPECT_EQ(*drain(**tree), (Listing{{"in", "d "}, {"in/f", "- deep"}}));
}

TEST_F(ContextTest, HostileContextsAreRefused) {
  const Fd escape = open_file(make_tar(directory_.at("c"), {{"../../etc/cron.d/x", '-', "x"}}));
  EXPECT_FALSE(BuildContext::open(escape.get(), directory_.path(), {}));
  const Fd large = open_file(make_tar(directory_.at("l"), {{"x", '-', std::string(1000, 'x')}}));
  EXPECT_FALSE(BuildContext::open(large.get(), directory_.path(), {.unpacked_bytes = 999}));
  const Fd link = open_file(make_tar(directory_.at("h"), {{"x", 'h', "etc/shadow"}}));
  EXPECT_FALSE(BuildContext::open(link.get(), directory_.path(), {}));
}

}  // namespace
}  // namespace atl::oci
