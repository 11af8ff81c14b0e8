// Every vector of http1_vectors.h through the parser: whole, byte by byte and cut at random, with
// the same outcome each time; then mutations of them, which must never crash nor depend on cuts.
// ATOLL_WRITE_CORPUS=DIR keeps the vectors as seed files for a fuzz target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "base/strings.h"
#include "http/h1_parser.h"
#include "http/http1_vectors.h"

namespace atl::http {
namespace {

struct Outcome {
  int refused_status = 0;
  std::vector<std::string> heads;   // targets of the heads seen
  std::vector<std::string> bodies;  // of the messages seen, complete or not
  std::size_t complete = 0;
  bool operator==(const Outcome&) const = default;
};

// What a connection does with its input: message after message until one closes or is refused.
class Reader {
 public:
  // False when nothing more is to be read.
  bool feed(std::string_view input) {
    while (true) {
      const auto step = parser_.feed(input);
      if (!step) {
        outcome.refused_status = step.error().status;
        return false;
      }
      input.remove_prefix(step->consumed);
      if (step->event == Http1Parser::Event::kHead) {
        outcome.heads.push_back(parser_.head().target);
        outcome.bodies.emplace_back();
      }
      if (!step->body.empty()) {
        outcome.bodies.back() += step->body;
      }
      if (parser_.done()) {
        ++outcome.complete;
        if (!parser_.head().keep_alive) {
          return false;
        }
        parser_.begin();
      }
      if (input.empty()) {
        return true;
      }
    }
  }

  Outcome outcome;

 private:
  Http1Parser parser_{Role::kRequest, {}};
};

Outcome read_whole(std::string_view bytes) {
  Reader reader;
  reader.feed(bytes);
  return reader.outcome;
}

template <class NextSize>
Outcome read_cut(std::string_view bytes, NextSize next_size) {
  Reader reader;
  while (!bytes.empty()) {
    const std::string piece{bytes.substr(0, next_size())};  // a copy: reads past it are caught
    bytes.remove_prefix(piece.size());
    if (!reader.feed(piece)) {
      break;
    }
  }
  return reader.outcome;
}

Outcome read_bytewise(std::string_view bytes) {
  return read_cut(bytes, [] { return std::size_t{1}; });
}

std::string on_the_wire(const RequestVector& vector) {
  return concat(vector.bytes, kNextRequest);
}

TEST(Http1Gate, TheTableIsLargeEnough) {
  std::size_t hostile = 0;
  for (const auto& vector : request_vectors()) {
    hostile += vector.status != 0 ? 1 : 0;
  }
  EXPECT_GE(hostile, 37U);
}

TEST(Http1Gate, EveryVectorMeetsItsFate) {
  for (const auto& vector : request_vectors()) {
    SCOPED_TRACE(vector.name);
    const auto outcome = read_whole(on_the_wire(vector));
    EXPECT_EQ(vector.status, outcome.refused_status);
    if (vector.status != 0) {
      EXPECT_EQ(0U, outcome.complete);
      EXPECT_EQ(vector.refused_in_body ? 1U : 0U, outcome.heads.size());
      continue;
    }
    ASSERT_EQ(vector.closes ? 1U : 2U, outcome.complete);
    EXPECT_EQ(vector.body, outcome.bodies[0]);
    EXPECT_NE("/next", outcome.heads[0]);
    if (!vector.closes) {
      EXPECT_EQ("/next", outcome.heads[1]);
    }
  }
}

TEST(Http1Gate, CutsDoNotMatter) {
  std::mt19937 random{20261115};
  for (const auto& vector : request_vectors()) {
    SCOPED_TRACE(vector.name);
    const auto bytes = on_the_wire(vector);
    const auto whole = read_whole(bytes);
    EXPECT_EQ(whole, read_bytewise(bytes));
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(whole, read_cut(bytes, [&random] { return random() % 40 + 1; }));
    }
  }
}

std::string mutate(std::string bytes, std::mt19937& random) {
  static constexpr std::string_view kSpice{"\0\r\n\t :;,0aF\x7F\xFF{}", 15};
  const auto changes = random() % 4 + 1;
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    const char spice = kSpice[random() % kSpice.size()];
    switch (random() % 5) {
      case 0:
        bytes[at] = spice;
        break;
      case 1:
        bytes.insert(at, 1, spice);
        break;
      case 2:
        bytes.erase(at, random() % 4 + 1);
        break;
      case 3:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 24));
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
    }
  }
  return bytes;
}

TEST(Http1Gate, MutationsNeverCrashNorDependOnCuts) {
  std::mt19937 random{4711};
  std::vector<RequestVector> vectors = request_vectors();
  std::erase_if(vectors, [](const auto& vector) { return vector.bytes.size() > 2000; });
  std::size_t refused = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto bytes = mutate(on_the_wire(vectors[random() % vectors.size()]), random);
    const auto whole = read_whole(bytes);
    refused += whole.refused_status != 0 ? 1 : 0;
    ASSERT_EQ(whole, read_cut(bytes, [&random] { return random() % 9 + 1; })) << hex(bytes);
  }
  EXPECT_GT(refused, 1000U);
}

TEST(Http1Gate, TheTableBecomesACorpus) {
  char temporary[] = "/tmp/atoll_corpus_XXXXXX";
  const char* wanted = std::getenv("ATOLL_WRITE_CORPUS");
  const std::filesystem::path directory = wanted != nullptr ? wanted : ::mkdtemp(temporary);
  std::set<std::string> names;
  for (const auto& vector : request_vectors()) {
    std::string name{vector.name};
    for (char& c : name) {
      c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    EXPECT_TRUE(names.insert(name).second) << name;
    std::ofstream file{directory / (name + ".txt"), std::ios::binary};
    file << on_the_wire(vector);
    EXPECT_TRUE(file.good());
  }
  if (wanted == nullptr) {
    std::filesystem::remove_all(directory);
  }
}

struct ResponseOutcome {
  bool accepted = false;
  std::string body;
  bool operator==(const ResponseOutcome&) const = default;
};

// As the client reads: interim heads are skipped, then the peer closes.
ResponseOutcome read_response(std::string_view bytes, std::size_t piece_size) {
  Http1Parser parser{Role::kResponse, {}};
  ResponseOutcome outcome;
  while (!bytes.empty() && !parser.done()) {
    std::string_view piece = bytes.substr(0, piece_size);
    const auto step = parser.feed(piece);
    if (!step) {
      return {};
    }
    bytes.remove_prefix(step->consumed);
    outcome.body += step->body;
    if (step->event == Http1Parser::Event::kHead && parser.head().status < 200) {
      if (parser.head().status == 101) {
        return {};
      }
      parser.begin();
    }
  }
  if (!parser.done() && !parser.end_of_input()) {
    return {};
  }
  outcome.accepted = true;
  return outcome;
}

TEST(Http1Gate, EveryResponseVectorMeetsItsFate) {
  for (const auto& vector : response_vectors()) {
    SCOPED_TRACE(vector.name);
    const auto whole = read_response(vector.bytes, std::string_view::npos);
    EXPECT_EQ(vector.accepted, whole.accepted);
    if (vector.accepted) {
      EXPECT_EQ(vector.body, whole.body);
    }
    EXPECT_EQ(whole, read_response(vector.bytes, 1));
  }
}

TEST(Http1Gate, ResponseToHeadHasNoBody) {
  Http1Parser parser{Role::kResponse, {}};
  parser.begin(true);
  ASSERT_TRUE(parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_TRUE(parser.done());
  EXPECT_TRUE(parser.head().keep_alive);
}

}  // namespace
}  // namespace atl::http
