// The description of a process, as it was written and as somebody forged it.
#include "guest/warm_image.h"

#include <gtest/gtest.h>

#include <functional>

#include "guest/warm_steps.h"
#include "guest/wire.h"

namespace atl::guest {
namespace {

WarmImage whole_image() {
  WarmImage image;
  image.machine = "x86_64";
  image.program = "/usr/bin/python3";
  image.name = "python3";
  image.directory = "/home/user";
  image.memory_bytes = 4 * kPageBytes;
  image.files = {{"/usr/lib/libc.so.6", 1000, 2000}};
  image.mappings = {
      {.kind = MappingKind::kFile, .start = 0x7f0000000000, .bytes = kPageBytes, .protection = 5},
      {.kind = MappingKind::kImage, .start = 0x7f0000002000, .bytes = 2 * kPageBytes},
      {.kind = MappingKind::kStack,
       .start = 0x7ffe00000000,
       .bytes = 2 * kPageBytes,
       .protection = 3,
       .offset = 2 * kPageBytes}};
  image.kernel_mappings = {{0x7ffe10000000, kPageBytes}, {0x7ffe0fff0000, kPageBytes}};
  image.descriptors = {{.kind = DescriptorKind::kPath, .number = 0, .path = "/dev/null"},
                       {.kind = DescriptorKind::kOutput, .number = 1},
                       {.kind = DescriptorKind::kSame, .number = 5, .value = 0}};
  image.signal_actions = {{.signal = 2, .action = {1, 2, 3, 4}}};
  image.registers = std::string(216, 'r');
  image.auxiliary_vector = std::string(320, 'a');
  return image;
}

bool is_accepted(const std::function<void(WarmImage&)>& change) {
  WarmImage image = whole_image();
  change(image);
  return decode_warm_image(encode(image)).has_value();
}

TEST(WarmImage, IsReadAsItWasWritten) {
  const std::string bytes = encode(whole_image());
  const auto image = decode_warm_image(bytes);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(encode(*image), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_warm_image(std::string_view{bytes}.substr(0, size)));
  }
}

TEST(WarmImage, ForgeriesAreRefused) {
  EXPECT_TRUE(is_accepted([](WarmImage&) {}));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.mappings[0].path = 1; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.mappings[0].start += 1; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.mappings[1].bytes = 1ULL << 50; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.mappings[1].offset = 3 * kPageBytes; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.mappings[1].start = kPageBytes; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.kernel_mappings[0].bytes = 1 << 30; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.descriptors[2].value = 5; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.descriptors[2].number = 1; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.descriptors[0].path = "null"; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.signal_actions[0].signal = 65; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.program = "python3"; }));
  EXPECT_FALSE(is_accepted([](WarmImage& image) { image.name = std::string(16, 'n'); }));
  EXPECT_FALSE(is_accepted(
      [](WarmImage& image) { image.registers = std::string(kMaxRegisterBytes + 1, 'r'); }));
  EXPECT_FALSE(is_accepted(
      [](WarmImage& image) { image.descriptors.resize(kMaxDescriptors + 1, {.number = 9}); }));
}

TEST(WarmImage, ThePlanLiesWhereTheImageDoesNot) {
  WarmImage image = whole_image();
  const auto first = make_restore_plan(image, {.memory = 16, .plan = 17}, 0x7fff00000000);
  if (!kWarmForks) {
    EXPECT_FALSE(first);
    return;
  }
  ASSERT_TRUE(first) << first.error().message;
  image.mappings.insert(
      image.mappings.begin(),
      {.kind = MappingKind::kAnonymous, .start = first->start + kPageBytes, .bytes = kPageBytes});
  const auto second = make_restore_plan(image, {.memory = 16, .plan = 17}, 0x7fff00000000);
  ASSERT_TRUE(second);
  EXPECT_NE(first->start, second->start);
  EXPECT_LE(second->last_step, second->start + second->content.size());
}

TEST(WarmImage, RequestsAreReadAsTheyWereWritten) {
  const auto capture = decode_capture(encode(CaptureRequest{"p", 12, 903, 1ULL << 40}));
  ASSERT_TRUE(capture);
  EXPECT_EQ(encode(*capture), encode(CaptureRequest{"p", 12, 903, 1ULL << 40}));
  EXPECT_FALSE(capture->own_memory);
  const auto own = decode_capture(encode(CaptureRequest{"p", 12, 903, 1, true}));
  EXPECT_TRUE(own && own->own_memory);
  EXPECT_FALSE(decode_capture(encode(CaptureRequest{"p", 1, 903, 1})));
  EXPECT_FALSE(decode_capture(encode(CaptureRequest{"p", 12, 1 << 16, 1})));
  EXPECT_FALSE(decode_capture(encode(CaptureRequest{"p", 12, 903, 0})));
  SpawnRequest spawn;
  spawn.process_id = "p";
  spawn.argv = {"x"};
  EXPECT_TRUE(decode_revive(encode(ReviveRequest{spawn, "d"})));
  EXPECT_FALSE(
      decode_revive(encode(ReviveRequest{spawn, std::string(kMaxDescriptionBytes + 1, 'd')})));
  spawn.stdin_open = true;
  EXPECT_FALSE(decode_revive(encode(ReviveRequest{spawn, "d"})));
}

}  // namespace
}  // namespace atl::guest
