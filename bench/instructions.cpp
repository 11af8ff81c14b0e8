// The user-space work of a request, piece by piece, for counting instructions: the same input every
// time, no sockets, no clock. What a count grows by is a change of ours or of a library.
//
//   atoll-instructions PIECE COUNT       does the piece COUNT times
//   atoll-instructions                   lists the pieces
//
// suite/instructions.py runs it under callgrind with two counts; the difference is the piece alone.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/json.h"
#include "base/strings.h"
#include "egress/decision.h"
#include "egress/policy_json.h"
#include "guest/wire.h"
#include "http/h1_parser.h"
#include "http/router.h"
#include "node/protocol.h"
#include "store/room.h"

namespace atl::bench {
namespace {

constexpr std::string_view kRequest =
    "POST /api/v1/sandboxes/rs-default-ofcwj72evt/contexts HTTP/1.1\r\nHost: 127.0.0.1:7070\r\n"
    "Authorization: Bearer atoll_0123456789abcdef0123456789abcdef\r\n"
    "Content-Type: application/json\r\nContent-Length: 77\r\n\r\n"
    R"({"type":"cmd","cmd":{"command":["/bin/true"]},"wait_until_done":true, "a":1}))";

void parse_request(std::size_t count) {
  http::Http1Parser parser{http::Role::kRequest, {}};
  for (std::size_t i = 0; i < count; ++i) {
    parser.begin();
    std::string_view rest = kRequest;
    while (!parser.done()) {
      const auto step = parser.feed(rest);
      CHECK(step.has_value() && step->event != http::Http1Parser::Event::kNeedMore);
      rest.remove_prefix(step->consumed);
    }
    CHECK(parser.head().method == "POST");
  }
}

void parse_json(std::size_t count) {
  constexpr std::string_view kText =
      R"({"template":"default","config":{"env_vars":{"GREETING":"hello"},"resources":)"
      R"({"memory":"1Gi","cpu":"1","disk":"4Gi"},"metadata":{"owner":"alice"},"ttl":3600}})";
  for (std::size_t i = 0; i < count; ++i) {
    const auto json = Json::parse(kText);
    CHECK(json && json->dump().size() == kText.size());
  }
}

void route(std::size_t count) {
  http::Router router;
  for (const char* method : {"GET", "POST", "PUT", "DELETE"}) {
    for (const char* pattern :
         {"/api/v1/sandboxes", "/api/v1/sandboxes/{id}", "/api/v1/sandboxes/{id}/status",
          "/api/v1/sandboxes/{id}/services", "/api/v1/sandboxes/{id}/pause",
          "/api/v1/sandboxes/{id}/snapshots", "/api/v1/sandboxes/{id}/files",
          "/api/v1/sandboxes/{id}/files/stat", "/api/v1/templates", "/api/v1/templates/{id}",
          "/api/v1/approvals", "/api/v1/network/flows", "/api/v1/sandboxes/{id}/contexts",
          "/api/v1/sandboxes/{id}/contexts/{ctx_id}/exec"}) {
      router.add(method, pattern, [](http::Exchange&, const http::PathParameters&) -> Task<> {
        co_return Result<>{};
      });
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto match =
        router.match("POST", "/api/v1/sandboxes/rs-default-ofcwj72evt/contexts/c-1/exec");
    CHECK(match.handler != nullptr && match.parameters.size() == 2);
  }
}

void decide(std::size_t count) {
  std::string text = R"({"mode":"block-all","egress":{"trafficRules":[)";
  for (int i = 0; i < 32; ++i) {
    text += concat(i == 0 ? "" : ",", R"({"action":"allow","domains":["*.host)", i,
                   R"(.example"],"ports":[{"port":443}]})");
  }
  const auto json = Json::parse(text + "]}}");
  CHECK(json.has_value());
  const auto policy = egress::read_policy(*json, "network");
  CHECK(policy.has_value());
  const egress::NamedPolicy named{"sandbox", &*policy};
  const egress::Flow flow{
      .address = egress::Address::v4(0x08080808), .port = 443, .name = "www.host31.example"};
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(egress::decide({&named, 1}, flow).action == egress::Action::kAllow);
  }
}

void talk_to_guest(std::size_t count) {
  const guest::SpawnRequest request{.process_id = "c-0123456789",
                                    .argv = {"/bin/true"},
                                    .env = {"A=b", "PATH=/usr/bin:/bin"},
                                    .cwd = "/workspace",
                                    .user = "user",
                                    .keep = true};
  for (std::size_t i = 0; i < count; ++i) {
    const auto again = guest::decode_spawn(guest::encode(request));
    CHECK(again && again->argv == request.argv && guest::validate(*again));
    const auto status = guest::decode_exit(guest::encode(guest::ExitStatus{}));
    CHECK(status.has_value());
  }
}

void talk_to_node(std::size_t count) {
  const node::CreateRequest request{.id = "rs-default-ofcwj72evt",
                                    .hostname = "rs-default-ofcwj72evt",
                                    .layers = {"sha256-0123456789abcdef"},
                                    .limits = {.memory_bytes = 1U << 30,
                                               .cpu_millis = 1000,
                                               .process_count = 1000,
                                               .disk_bytes = 1ULL << 32}};
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(node::decode_request(node::encode(request)).has_value());
  }
}

// A claim's transaction and a deletion's, on a database of its own.
void keep_books(std::size_t count) {
  const std::string directory = concat("/tmp/atoll-instructions-", ::getpid());
  std::filesystem::create_directory(directory);
  {
    const auto store = store::open_sqlite_store(directory + "/db");
    CHECK(store.has_value());
    store::Sandbox sandbox{.template_name = "default",
                           .layers = {"sha256-0123456789abcdef"},
                           .status = store::SandboxStatus::kRunning};
    for (std::size_t i = 0; i < count; ++i) {
      sandbox.id = concat("rs-default-", 1'000'000 + i);
      const store::Event event{.kind = "sandbox.running", .subject = sandbox.id};
      CHECK((*store)->insert_sandbox(sandbox, event).has_value());
      CHECK((*store)
                ->remove_sandbox(sandbox.id, {.status = store::SandboxStatus::kRunning}, event)
                .has_value());
    }
  }
  std::filesystem::remove_all(directory);
}

struct Piece {
  std::string_view name;
  void (*run)(std::size_t);
};
constexpr Piece kPieces[] = {
    {"request", parse_request}, {"json", parse_json},   {"route", route},     {"policy", decide},
    {"guest", talk_to_guest},   {"node", talk_to_node}, {"store", keep_books}};

}  // namespace
}  // namespace atl::bench

int main(int argc, char** argv) {
  for (const auto& piece : atl::bench::kPieces) {
    if (argc == 1) {
      std::puts(std::string{piece.name}.c_str());
    } else if (argc == 3 && piece.name == argv[1]) {
      piece.run(atl::parse_u64(argv[2]).value_or(0));
      return 0;
    }
  }
  return argc == 1 ? 0 : 2;
}
