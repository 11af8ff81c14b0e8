#include "node/protocol.h"

#include <gtest/gtest.h>

#include <random>

namespace atl::node {
namespace {

CreateRequest good_create() {
  return {.id = "sandbox-1",
          .hostname = "Box-1",
          .layers = {"default-abc123", "a.b_c-d"},
          .limits = {.memory_bytes = 1ULL << 30,
                     .cpu_millis = 1500,
                     .process_count = 512,
                     .disk_bytes = 10ULL << 30},
          .existing_upper = true};
}

std::vector<std::string> all_requests() {
  return {encode(good_create()),
          encode(DestroyRequest{.id = "x", .keep_upper = true}),
          encode_set_limits("x", good_create().limits),
          encode_plain(RequestKind::kHello),
          encode_plain(RequestKind::kList),
          encode_with_id(RequestKind::kList, "x"),
          encode_plain(RequestKind::kWatch),
          encode_plain(RequestKind::kCommitDisks),
          encode_with_id(RequestKind::kUsage, "x"),
          encode_with_id(RequestKind::kFreeze, "x"),
          encode_with_id(RequestKind::kThaw, "x")};
}

Code code_of(const CreateRequest& request) {
  const auto decoded = decode_request(encode(request));
  return decoded ? Code{0} : decoded.error().code;
}

TEST(NodeProtocol, CreateSurvivesTheTrip) {
  const auto decoded = decode_request(encode(good_create()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->kind, RequestKind::kCreate);
  EXPECT_EQ(decoded->create.id, "sandbox-1");
  EXPECT_EQ(decoded->create.hostname, "Box-1");
  EXPECT_EQ(decoded->create.layers, good_create().layers);
  EXPECT_EQ(decoded->create.limits.memory_bytes, 1ULL << 30);
  EXPECT_EQ(decoded->create.limits.cpu_millis, 1500U);
  EXPECT_EQ(decoded->create.limits.process_count, 512U);
  EXPECT_EQ(decoded->create.limits.disk_bytes, 10ULL << 30);
  EXPECT_TRUE(decoded->create.existing_upper);
  EXPECT_FALSE(decoded->create.in_background);
}

TEST(NodeProtocol, WhatNobodyWaitsForSaysSo) {
  CreateRequest request = good_create();
  request.in_background = true;
  const auto decoded = decode_request(encode(request));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->create.in_background);
}

TEST(NodeProtocol, OnlyASnapshotWithoutMemoryIsTaken) {
  CreateRequest request = good_create();
  request.takes_snapshot = true;
  EXPECT_EQ(code_of(request), Code::kInvalidArgument);
  request.existing_upper = false;
  request.from_snapshot = "moment";
  const auto decoded = decode_request(encode(request));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->create.takes_snapshot);
  request.restore_memory = true;
  EXPECT_EQ(code_of(request), Code::kInvalidArgument);
  const auto snapshot = decode_request(encode(
      RequestKind::kSnapshot, SnapshotRequest{.id = "x", .snapshot = "moment", .passing = true}));
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(snapshot->snapshot.passing);
  EXPECT_FALSE(snapshot->snapshot.memory);
}

TEST(NodeProtocol, OnlyAnEmptyBuildCellHasViews) {
  CreateRequest request{
      .id = "build-1",
      .hostname = "build",
      .layers = {kEmptyLayer},
      .views = {{View::Kind::kSnapshot, "snap-1"}, {View::Kind::kLayer, "img-1"}}};
  const auto decoded = decode_request(encode(request));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->create.views, request.views);
  const auto refused = [&](auto change) {
    CreateRequest other = request;
    change(other);
    return code_of(other) == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](CreateRequest& r) { r.id = "sandbox-1"; }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.layers = {"img-1"}; }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.layers.emplace_back("img-1"); }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.host_network = true; }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.from_snapshot = "snap-1"; }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.views[0].id = "../x"; }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.views[0].kind = static_cast<View::Kind>(9); }));
  EXPECT_TRUE(refused([](CreateRequest& r) { r.views.assign(131, r.views[0]); }));
}

TEST(NodeProtocol, OtherRequestsSurviveTheTrip) {
  const auto destroy = decode_request(encode(DestroyRequest{.id = "x", .keep_upper = true}));
  ASSERT_TRUE(destroy);
  EXPECT_EQ(destroy->destroy.id, "x");
  EXPECT_TRUE(destroy->destroy.keep_upper);
  const auto limits = decode_request(encode_set_limits("y", {.cpu_millis = 10}));
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->id, "y");
  EXPECT_EQ(limits->limits.cpu_millis, 10U);
  const auto list = decode_request(encode_with_id(RequestKind::kList, "z"));
  ASSERT_TRUE(list);
  EXPECT_EQ(list->id, "z");
}

TEST(NodeProtocol, AnswersSurviveTheTrip) {
  HelloAnswer hello{.version = "1",
                    .runtime = "namespaces",
                    .freeze = true,
                    .disk_quota = true,
                    .storage_backend = "btrfs",
                    .pool_total_bytes = 1ULL << 40,
                    .templates = {{"default", {"l1", "l2"}}, {"other", {}}}};
  const auto answer = decode_answer(encode_ok(encode_payload(hello)));
  ASSERT_TRUE(answer);
  const auto back = decode_hello(*answer);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->runtime, "namespaces");
  EXPECT_FALSE(back->kernel_boundary);
  EXPECT_TRUE(back->freeze);
  EXPECT_TRUE(back->disk_quota);
  EXPECT_EQ(back->pool_total_bytes, 1ULL << 40);
  ASSERT_EQ(back->templates.size(), 2U);
  EXPECT_EQ(back->templates[0].layers, (std::vector<std::string>{"l1", "l2"}));

  const auto cells = decode_cells(encode_payload(
      std::vector<CellInfo>{{"a", true, true, "/s/a"}, {"b", false, false, "/s/b"}}));
  ASSERT_TRUE(cells);
  ASSERT_EQ(cells->size(), 2U);
  EXPECT_TRUE((*cells)[0].running);
  EXPECT_EQ((*cells)[1].guest_socket, "/s/b");

  const auto usage = decode_usage(encode_payload(Usage{1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->memory_peak_bytes, 3U);
  EXPECT_EQ(usage->disk_bytes, 6U);

  const auto event = decode_event(encode_event({Event::Kind::kCellDied, "gone"}));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, "gone");
}

TEST(NodeProtocol, ErrorsSurviveTheTrip) {
  const auto answer = decode_answer(encode_error({Code::kNotFound, "no such layer", "layer"}));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kNotFound);
  EXPECT_EQ(answer.error().message, "no such layer");
  EXPECT_EQ(answer.error().reason, "layer");
}

TEST(NodeProtocol, AnUnknownErrorCodeBecomesUnknown) {
  std::string bytes = encode_error({Code::kNotFound, "m", ""});
  bytes[0] = 99;
  const auto answer = decode_answer(bytes);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnknown);
}

TEST(NodeProtocol, RefusesBadIds) {
  const std::vector<std::string> bad = {"",         "..",
                                        "../x",     "a/b",
                                        "A",        "a_b",
                                        "a.b",      "a b",
                                        "a\n",      std::string(64, 'a'),
                                        "\xc3\xa9", std::string("a\0b", 3)};
  for (const std::string& id : bad) {
    CreateRequest request = good_create();
    request.id = id;
    EXPECT_EQ(code_of(request), Code::kInvalidArgument) << id;
    EXPECT_FALSE(decode_request(encode(DestroyRequest{.id = id}))) << id;
    EXPECT_FALSE(decode_request(encode_with_id(RequestKind::kUsage, id))) << id;
    EXPECT_FALSE(decode_request(encode_with_id(RequestKind::kFreeze, id))) << id;
    EXPECT_FALSE(decode_request(encode_set_limits(id, {}))) << id;
  }
  CreateRequest longest = good_create();
  longest.id = std::string(63, 'a');
  EXPECT_EQ(code_of(longest), Code{0});
}

TEST(NodeProtocol, OnlyBuildsMayUseTheHostsNetwork) {
  CreateRequest request = good_create();
  request.host_network = true;
  EXPECT_EQ(code_of(request), Code::kInvalidArgument);
  request.id = "build-abc";
  const auto decoded = decode_request(encode(request));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->create.host_network);
}

TEST(NodeProtocol, RefusesBadHostnames) {
  for (const char* hostname : {"", "-a", "a-", "a.b", "a_b", "a b", "a\nb"}) {
    CreateRequest request = good_create();
    request.hostname = hostname;
    EXPECT_EQ(code_of(request), Code::kInvalidArgument) << hostname;
  }
}

TEST(NodeProtocol, RefusesBadLayers) {
  for (const std::string& layer : {std::string{}, std::string{".."}, std::string{"../../etc"},
                                   std::string{"/etc"}, std::string{".hidden"}, std::string{"a/b"},
                                   std::string{"a:b"}, std::string{"a,b"}, std::string(129, 'a')}) {
    CreateRequest request = good_create();
    request.layers = {"fine", layer};
    EXPECT_EQ(code_of(request), Code::kInvalidArgument) << layer;
  }
  CreateRequest none = good_create();
  none.layers.clear();
  EXPECT_EQ(code_of(none), Code::kInvalidArgument);
  CreateRequest many = good_create();
  many.layers.assign(kMaxLayersPerCell, "a");
  EXPECT_EQ(code_of(many), Code{0});
  many.layers.emplace_back("a");
  EXPECT_EQ(code_of(many), Code::kInvalidArgument);
}

TEST(NodeProtocol, RefusesHugeLimits) {
  const auto with = [](const Limits& limits) {
    CreateRequest request = good_create();
    request.limits = limits;
    EXPECT_EQ(decode_request(encode_set_limits("x", limits)).has_value(),
              code_of(request) == Code{0});
    return code_of(request);
  };
  EXPECT_EQ(with({}), Code{0});
  EXPECT_EQ(with({.memory_bytes = kMaxMemoryBytes}), Code{0});
  EXPECT_EQ(with({.memory_bytes = kMaxMemoryBytes + 1}), Code::kInvalidArgument);
  EXPECT_EQ(with({.cpu_millis = kMaxCpuMillis + 1}), Code::kInvalidArgument);
  EXPECT_EQ(with({.process_count = kMaxProcesses + 1}), Code::kInvalidArgument);
  EXPECT_EQ(with({.disk_bytes = kMaxDiskBytes + 1}), Code::kInvalidArgument);
  EXPECT_EQ(with({.disk_bytes = UINT64_MAX}), Code::kInvalidArgument);
}

TEST(NodeProtocol, RefusesEveryTruncationAndExtension) {
  for (const std::string& bytes : all_requests()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto decoded = decode_request(std::string_view{bytes}.substr(0, size));
      // A list without its id is a list from the start.
      EXPECT_TRUE(!decoded || decoded->kind == RequestKind::kList) << size;
    }
    EXPECT_FALSE(decode_request(bytes + '\0'));
  }
}

TEST(NodeProtocol, RefusesUnknownKindsAndHugeMessages) {
  EXPECT_FALSE(decode_request(""));
  EXPECT_FALSE(decode_request(std::string(1, '\0')));
  EXPECT_FALSE(decode_request("\x0a"));
  EXPECT_FALSE(decode_request("\xff"));
  EXPECT_FALSE(decode_request(std::string(kMaxMessageBytes + 1, '\1')));
}

// Whatever is decoded from damaged bytes still keeps every rule.
TEST(NodeProtocol, MutationsNeverGetPastValidation) {
  std::mt19937 random{20261115};
  const auto requests = all_requests();
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = requests[random() % requests.size()];
    for (unsigned change = 0; change < 1 + random() % 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto decoded = decode_request(bytes);
    if (!decoded) {
      continue;
    }
    if (decoded->kind == RequestKind::kCreate) {
      EXPECT_TRUE(is_cell_id(decoded->create.id));
      EXPECT_LE(decoded->create.layers.size(), kMaxLayersPerCell);
      EXPECT_LE(decoded->create.limits.memory_bytes, kMaxMemoryBytes);
      for (const std::string& layer : decoded->create.layers) {
        EXPECT_EQ(layer.find('/'), std::string::npos);
        EXPECT_FALSE(layer.starts_with('.'));
      }
    }
    (void)decode_answer(bytes);
    (void)decode_hello(bytes);
    (void)decode_cells(bytes);
    (void)decode_event(bytes);
  }
}

TEST(NodeProtocol, AFullPageFitsIntoAMessage) {
  const std::vector<CellInfo> page(kCellsPerPage,
                                   {std::string(63, 'a'), true, false, std::string(107, 'p')});
  EXPECT_LE(encode_ok(encode_payload(page)).size(), kMaxMessageBytes);
}

}  // namespace
}  // namespace atl::node
