#include "oci/image_writer.h"

#include <filesystem>

#include "oci/image_tree.h"
#include "oci/test_archive.h"

namespace atl::oci {
namespace {

std::string odd_tar() {
  ArchiveWriter writer{ArchiveFormat::kTar};
  EXPECT_TRUE(writer.begin({.path = "d",
                            .type = EntryType::kDirectory,
                            .mode = 0700,
                            .attributes = {{"user.of", "a directory"}}}));
  EXPECT_TRUE(writer.begin({.path = "d/pipe", .type = EntryType::kFifo, .mode = 0640, .uid = 7}));
  EXPECT_TRUE(writer.begin({.path = "d/file",
                            .modified_unix_ns = 1'500'000'001,
                            .size = 3,
                            .attributes = {{"user.a", std::string{"1\0\xff", 3}}}}));
  EXPECT_TRUE(writer.write("abc"));
  EXPECT_TRUE(writer.finish());
  return writer.take();
}

// A layout on disk, as an export has it.
void write_layout(const std::string& directory, ArchiveFormat format, std::string* digest) {
  const auto put = [&](const std::string& name, std::string_view text) {
    const std::string path = concat(directory, "/", name);
    std::filesystem::create_directories(std::filesystem::path{path}.parent_path());
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    ASSERT_TRUE(write_all(file.get(), text));
  };
  std::filesystem::create_directories(directory);
  const auto file = LayerFile::make(directory, format);
  ASSERT_TRUE(file) << file.error().message;
  const std::string tar = odd_tar();
  ASSERT_TRUE((*file)->write(tar.substr(0, 100)));
  ASSERT_TRUE((*file)->write(tar.substr(100)));
  const auto layer = (*file)->finish();
  ASSERT_TRUE(layer) << layer.error().message;
  EXPECT_EQ(layer->diff_id, sha256_of(tar));
  const auto blob = (*file)->read(0, layer->size);
  ASSERT_TRUE(blob);
  EXPECT_EQ(layer->sha256, sha256_of(*blob));
  put("blobs/sha256/" + layer->sha256, *blob);
  ImageConfig config;
  config.env = {{"A", "1"}};
  config.user = "app";
  config.working_dir = "/srv";
  const std::string config_json = config_text(config, {*layer});
  const std::string manifest = manifest_text(config_json, {*layer}, format);
  put("blobs/sha256/" + sha256_of(config_json), config_json);
  put("blobs/sha256/" + sha256_of(manifest), manifest);
  put("index.json", index_text(manifest));
  put("oci-layout", layout_text());
  *digest = sha256_of(manifest);
}

TEST(ImageWriter, WhatIsWrittenIsReadAgain) {
  const TestDirectory directory;
  for (const auto format :
       {ArchiveFormat::kTar, ArchiveFormat::kTarGzip, ArchiveFormat::kTarZstd}) {
    const std::string place = directory.at(random_label(8));
    std::string digest;
    write_layout(place, format, &digest);
    const auto image = open_image_layout(place);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->digest, digest);
    EXPECT_EQ(image->config.user, "app");
    EXPECT_EQ(image->config.working_dir, "/srv");
    EXPECT_EQ(image->config.env.at("A"), "1");
    const auto tree = open_image_tree(image->layers, {});
    ASSERT_TRUE(tree) << tree.error().message;
    std::map<std::string, ArchiveEntry> entries;
    for (;;) {
      auto entry = (*tree)->next();
      ASSERT_TRUE(entry) << entry.error().message;
      if (!*entry) {
        break;
      }
      std::string content((*entry)->size, '\0');
      if (!content.empty()) {
        EXPECT_TRUE((*tree)->read(content));
        EXPECT_EQ(content, "abc");
      }
      entries.emplace((*entry)->path, **entry);
    }
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries.at("d").attributes,
              (std::vector<ArchiveAttribute>{{"user.of", "a directory"}}));
    EXPECT_EQ(entries.at("d/pipe").type, EntryType::kFifo);
    EXPECT_EQ(entries.at("d/pipe").uid, 7U);
    EXPECT_EQ(entries.at("d/file").attributes,
              (std::vector<ArchiveAttribute>{{"user.a", std::string{"1\0\xff", 3}}}));
    EXPECT_EQ(entries.at("d/file").modified_unix_ns, 1'500'000'001);
  }
}

TEST(ImageWriter, TheSameIsTheSame) {
  const TestDirectory directory;
  std::string first;
  std::string second;
  write_layout(directory.at("a"), ArchiveFormat::kTarGzip, &first);
  write_layout(directory.at("b"), ArchiveFormat::kTarGzip, &second);
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace atl::oci
