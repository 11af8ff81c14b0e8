// For tests: an API server with one made-up process and a file tree in memory, on the same loop as
// the command line that talks to it; and a console whose three descriptors the test holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/console.h"
#include "http/router.h"
#include "http/server.h"
#include "io/reactor.h"

namespace atl::cli {

struct FakeFile {
  std::string type = "file";  // or "dir", "symlink"
  std::string content;
  std::string mode = "0644";
  std::string link_target;
};

// How the made-up process behaves.
struct FakeProcess {
  // Raw text of the stream, sent in pieces of `piece_bytes`.
  std::string stream;
  std::size_t piece_bytes = 7;
  bool echo_input = false;       // what comes to stdin goes to stdout; exits 0 at the end of input
  bool wait_for_signal = false;  // exits by the signal it gets
  std::size_t break_after_bytes = 0;  // the first connection ends without an exit after so many
  int create_status = 201;            // of POST …/contexts
  std::string create_error;           // code of the envelope
};

class FakeApi {
 public:
  FakeApi();
  ~FakeApi();

  FakeProcess process;
  std::map<std::string, FakeFile> files;
  std::vector<Json> sandboxes;  // what the list shows, in pages
  std::string wanted_key = "key-1";
  int create_sandbox_status = 201;
  bool hold_create = false;  // answers a create only after create_released is set
  Event create_released;

  // The `data` of "POST /api/v1/…", before the routes below are looked at; what was sent there.
  std::map<std::string, Json> answers;
  std::map<std::string, std::string> sent;

  // What was asked: "POST /api/v1/sandboxes", in order, and the bodies of some.
  std::vector<std::string> requests;
  std::vector<Json> created;
  std::vector<Json> contexts;
  std::string input;
  bool input_ended = false;
  std::vector<std::string> signals;
  std::function<void(const std::string&)> on_request;  // sees each line of `requests`

  bool was_asked(std::string_view request) const;

  struct Outcome {
    int status = -1;
    std::string output;
    std::string error;
  };
  // Runs `atoll <arguments>` against this server to its end.
  Outcome run(std::vector<std::string> arguments, std::string input_text = {});
  // The same with standard input left open and silent.
  Outcome run_with_open_input(std::vector<std::string> arguments);

  static std::string output_line(std::string_view source, std::string_view data,
                                 std::uint64_t offset);
  static std::string exit_line(int exit_code);

 private:
  Outcome run_with(std::vector<std::string> arguments, int input_fd);
  Task<int> beside_server(std::vector<std::string> arguments, const Console& console);
  Task<> handle(http::Exchange& exchange);
  void add_sandbox_routes();
  void add_context_routes();
  void add_file_routes();
  Task<> answer_create(http::Exchange& exchange);
  Task<> answer_list(http::Exchange& exchange);
  Task<> answer_context(http::Exchange& exchange);
  Task<> answer_stream(http::Exchange& exchange);
  Task<> answer_echo(http::Exchange& exchange);
  Task<> answer_input(http::Exchange& exchange);
  Task<> answer_file_write(http::Exchange& exchange);
  Task<> answer_file_read(http::Exchange& exchange);
  Task<> answer_file_stat(http::Exchange& exchange);
  Task<> answer_file_list(http::Exchange& exchange);

  io::Reactor reactor_;
  Metrics metrics_;
  http::Router router_;
  std::uint16_t port_ = 0;  // of the server of the invocation under way
  Event process_news_;      // input, end of input or a signal
  int streams_opened_ = 0;
};

}  // namespace atl::cli
