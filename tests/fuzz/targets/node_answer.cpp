// What the API process reads from the root process. The first byte chooses the format.
#include "node/protocol.h"
#include "wire.h"

namespace atl::fuzz {
namespace {

template <class T>
void check(std::string_view payload, Result<T> (*decode)(std::string_view)) {
  check_canonical(payload, decode(payload),
                  [](const T& value) { return node::encode_payload(value); });
}

}  // namespace

void node_answer(std::string_view bytes) {
  Input input{bytes};
  const auto format = input.number();
  const auto payload = input.rest();
  switch (format) {
    case 0: {
      const auto answer = node::decode_answer(payload);
      CHECK(!answer || node::encode_ok(*answer) == payload);
      return;
    }
    case 1:
      return check(payload, node::decode_cell);
    case 2:
      return check(payload, node::decode_cells);
    case 3:
      return check(payload, node::decode_usage);
    case 4:
      return check(payload, node::decode_hello);
    case 5:
      return check(payload, node::decode_names);
    case 6:
      return check(payload, node::decode_snapshot);
    default:
      return check_canonical(payload, node::decode_event(payload), node::encode_event);
  }
}

Seeds node_answer_seeds() {
  const auto format = [](int number, const std::string& payload) {
    return static_cast<char>(number) + payload;
  };
  using Info = node::TemplateInfo;
  return {
      format(0, node::encode_ok("payload")),
      format(0, node::encode_error(Error{Code::kNotFound, "no such cell", "gone"})),
      format(1, node::encode_payload(node::CellInfo{"rs-1", true, true, "/run/x"})),
      format(2, node::encode_payload(std::vector<node::CellInfo>{{"a", true, false, "/x"}, {"b"}})),
      format(3, node::encode_payload(node::Usage{1, 2, 3, 4})),
      format(4, node::encode_payload(
                    node::HelloAnswer{.version = "1",
                                      .runtime = "namespaces",
                                      .storage_backend = "btrfs",
                                      .templates = {{"default", {"a"}, Info::State::kReady}}})),
      format(5, node::encode_payload(std::vector<std::string>{"a", "b"})),
      format(6, node::encode_payload(node::SnapshotAnswer{7})),
      format(7, node::encode_event({node::Event::Kind::kTemplateFailed, "x", "why"}))};
}

}  // namespace atl::fuzz
