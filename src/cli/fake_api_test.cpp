// The fake server's own code; compiled into the room's test binary only.
#include "cli/fake_api.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strings.h"
#include "cli/execute.h"
#include "io/stream.h"

namespace atl::cli {
namespace {

http::Response json_response(int status, const Json& json) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = json.dump()};
}

Task<> answer_data(http::Exchange& exchange, int status, Json data) {
  return exchange.respond(
      json_response(status, Json::object({{"success", true}, {"data", std::move(data)}})));
}

Task<> answer_error(http::Exchange& exchange, int status, std::string code) {
  return exchange.respond(json_response(
      status, Json::object({{"success", false},
                            {"error", Json::object({{"code", code},
                                                    {"message", concat("fake ", code)}})}})));
}

Task<Json> read_json(http::Exchange& exchange) {
  CO_TRY(const auto text, co_await http::read_all(exchange.body(), 1U << 20));
  co_return Json::parse(text);
}

std::string contents_of(int fd) {
  std::string out(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  const ssize_t got = ::pread(fd, out.data(), out.size(), 0);
  out.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return out;
}

Json file_json(const std::string& path, const FakeFile& file, bool with_target) {
  Json json = Json::object({{"name", path.substr(path.rfind('/') + 1)},
                            {"path", path},
                            {"type", file.type},
                            {"size", file.content.size()},
                            {"mode", file.mode}});
  if (with_target && !file.link_target.empty()) {
    json.set("link_target", file.link_target);
  }
  return json;
}

std::string path_parameter(http::Exchange& exchange) {
  return http::query_value(exchange.request().query, "path").value_or("");
}

}  // namespace

FakeApi::FakeApi() {
  add_sandbox_routes();
  add_context_routes();
  add_file_routes();
}

FakeApi::~FakeApi() = default;

bool FakeApi::was_asked(std::string_view request) const {
  return std::find(requests.begin(), requests.end(), request) != requests.end();
}

std::string FakeApi::output_line(std::string_view source, std::string_view data,
                                 std::uint64_t offset) {
  return Json::object({{"type", "output"},
                       {"source", source},
                       {"data_base64", base64_encode(data)},
                       {"offset", offset}})
             .dump() +
         "\n";
}

std::string FakeApi::exit_line(int exit_code) {
  return Json::object({{"type", "exit"}, {"exit_code", exit_code}, {"state", "stopped"}}).dump() +
         "\n";
}

FakeApi::Outcome FakeApi::run(std::vector<std::string> arguments, std::string input_text) {
  Fd source{input_text.empty() ? ::open("/dev/null", O_RDONLY | O_CLOEXEC)
                               : ::memfd_create("input", MFD_CLOEXEC)};
  if (!input_text.empty()) {
    CHECK(write_all(source.get(), input_text).has_value());
    ::lseek(source.get(), 0, SEEK_SET);
  }
  return run_with(std::move(arguments), source.get());
}

FakeApi::Outcome FakeApi::run_with_open_input(std::vector<std::string> arguments) {
  int ends[2];
  CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  const Fd reading{ends[0]};
  const Fd writing{ends[1]};
  return run_with(std::move(arguments), reading.get());
}

FakeApi::Outcome FakeApi::run_with(std::vector<std::string> arguments, int input_fd) {
  const Fd output{::memfd_create("output", MFD_CLOEXEC)};
  const Fd error{::memfd_create("error", MFD_CLOEXEC)};
  const Console console{
      {.input = input_fd, .output = output.get(), .error = error.get(), .colours = false}};
  auto status = reactor_.run_until_complete(beside_server(std::move(arguments), console));
  return {status.value_or(-1), contents_of(output.get()), contents_of(error.get())};
}

Task<int> FakeApi::beside_server(std::vector<std::string> arguments, const Console& console) {
  // A server runs once, so each invocation gets its own.
  http::Server server{reactor_,
                      *io::Listener::bind_tcp("127.0.0.1", 0),
                      [this](http::Exchange& exchange) { return handle(exchange); },
                      {},
                      metrics_};
  port_ = server.port();
  Scope scope{co_await current_context()};
  scope.spawn("server", server.run());
  const Environment environment{.host_checks = {}, .version = "1.2.3", .other_commands = {}};
  const EnvLookup lookup = [this](const char* name) -> std::string {
    if (std::string_view{name} == "ATOLL_API_URL") {
      return concat("http://127.0.0.1:", port_);
    }
    return std::string_view{name} == "ATOLL_API_KEY" ? "key-1" : "";
  };
  const World world{.environment = environment, .console = console, .lookup = lookup};
  auto status = co_await execute(reactor_, world, std::move(arguments));
  (void)co_await scope.cancel_and_join();
  co_return std::move(status);
}

Task<> FakeApi::handle(http::Exchange& exchange) {
  const auto& request = exchange.request();
  requests.push_back(concat(request.method, " ", request.path));
  if (on_request) {
    on_request(requests.back());
  }
  if (request.headers.get("authorization") != concat("Bearer ", wanted_key)) {
    co_return co_await answer_error(exchange, 401, "unauthorized");
  }
  if (const auto answer = answers.find(requests.back()); answer != answers.end()) {
    CO_TRY(sent[requests.back()], co_await http::read_all(exchange.body(), 1U << 20));
    co_return co_await answer_data(exchange, 200, answer->second);
  }
  const auto match = router_.match(request.method, request.path);
  if (match.handler == nullptr) {
    co_return co_await answer_error(exchange, 404, "not_found");
  }
  co_return co_await (*match.handler)(exchange, match.parameters);
}

void FakeApi::add_sandbox_routes() {
  router_.add("POST", "/api/v1/sandboxes",
              [this](http::Exchange& e, const http::PathParameters&) { return answer_create(e); });
  router_.add("GET", "/api/v1/sandboxes",
              [this](http::Exchange& e, const http::PathParameters&) { return answer_list(e); });
  router_.add(
      "GET", "/api/v1/sandboxes/{id}", [](http::Exchange& e, const http::PathParameters& p) {
        return answer_data(e, 200, Json::object({{"id", p.at("id")}, {"status", "running"}}));
      });
  router_.add("DELETE", "/api/v1/sandboxes/{id}",
              [](http::Exchange& e, const http::PathParameters& p) {
                return p.at("id") == "gone" ? answer_error(e, 404, "not_found")
                                            : answer_data(e, 200, Json::object());
              });
}

void FakeApi::add_context_routes() {
  const std::string base = "/api/v1/sandboxes/{id}/contexts";
  router_.add("POST", base,
              [this](http::Exchange& e, const http::PathParameters&) { return answer_context(e); });
  router_.add("DELETE", base + "/{ctx}", [](http::Exchange& e, const http::PathParameters&) {
    return answer_data(e, 200, Json::object({{"deleted", true}}));
  });
  router_.add("GET", base + "/{ctx}/stream",
              [this](http::Exchange& e, const http::PathParameters&) { return answer_stream(e); });
  router_.add("POST", base + "/{ctx}/input",
              [this](http::Exchange& e, const http::PathParameters&) { return answer_input(e); });
  router_.add("POST", base + "/{ctx}/signal",
              [this](http::Exchange& e, const http::PathParameters&) { return answer_input(e); });
}

void FakeApi::add_file_routes() {
  const std::string base = "/api/v1/sandboxes/{id}/files";
  router_.add("POST", base, [this](http::Exchange& e, const http::PathParameters&) {
    return answer_file_write(e);
  });
  router_.add("GET", base, [this](http::Exchange& e, const http::PathParameters&) {
    return answer_file_read(e);
  });
  router_.add("GET", base + "/stat", [this](http::Exchange& e, const http::PathParameters&) {
    return answer_file_stat(e);
  });
  router_.add("GET", base + "/list", [this](http::Exchange& e, const http::PathParameters&) {
    return answer_file_list(e);
  });
}

Task<> FakeApi::answer_create(http::Exchange& exchange) {
  CO_TRY(auto body, co_await read_json(exchange));
  created.push_back(std::move(body));
  if (hold_create) {
    CO_TRY_DO(co_await create_released.wait());
  }
  if (create_sandbox_status != 201) {
    co_return co_await answer_error(exchange, create_sandbox_status, "quota_exceeded");
  }
  co_return co_await answer_data(
      exchange, 201,
      Json::object({{"sandbox_id", "sb-1"}, {"template", "default"}, {"status", "running"}}));
}

Task<> FakeApi::answer_list(http::Exchange& exchange) {
  const auto& query = exchange.request().query;
  const auto limit = parse_u64(http::query_value(query, "limit").value_or("50")).value_or(50);
  const auto offset = parse_u64(http::query_value(query, "offset").value_or("0")).value_or(0);
  Json page = Json::array();
  for (std::size_t i = offset; i < sandboxes.size() && i < offset + limit; ++i) {
    page.push(sandboxes[i]);
  }
  const bool more = offset + limit < sandboxes.size();
  co_return co_await answer_data(
      exchange, 200,
      Json::object(
          {{"sandboxes", std::move(page)}, {"count", sandboxes.size()}, {"has_more", more}}));
}

Task<> FakeApi::answer_context(http::Exchange& exchange) {
  CO_TRY(auto body, co_await read_json(exchange));
  contexts.push_back(std::move(body));
  if (process.create_status != 201) {
    co_return co_await answer_error(exchange, process.create_status, process.create_error);
  }
  co_return co_await answer_data(
      exchange, 201, Json::object({{"id", "ctx-1"}, {"type", "cmd"}, {"exit_code", 0}}));
}

Task<> FakeApi::answer_stream(http::Exchange& exchange) {
  ++streams_opened_;
  const bool broken = process.break_after_bytes > 0 && streams_opened_ == 1;
  const std::string_view text =
      broken ? std::string_view{process.stream}.substr(0, process.break_after_bytes)
             : std::string_view{process.stream};
  CO_TRY_DO(co_await exchange.start(200, {{"Content-Type", "application/x-ndjson"}}, std::nullopt));
  for (std::size_t i = 0; i < text.size(); i += process.piece_bytes) {
    CO_TRY_DO(co_await exchange.write(text.substr(i, process.piece_bytes)));
  }
  if (broken) {
    co_return fail(Code::kUnavailable, "broken on purpose");
  }
  if (process.echo_input || process.wait_for_signal) {
    CO_TRY_DO(co_await answer_echo(exchange));
  }
  co_return co_await exchange.finish();
}

Task<> FakeApi::answer_echo(http::Exchange& exchange) {
  std::size_t echoed = 0;
  for (;;) {
    process_news_.clear();
    if (process.echo_input && echoed < input.size()) {
      const auto line = output_line("stdout", std::string_view{input}.substr(echoed), echoed);
      echoed = input.size();
      CO_TRY_DO(co_await exchange.write(line));
      continue;
    }
    if (process.echo_input && input_ended) {
      co_return co_await exchange.write(exit_line(0));
    }
    if (process.wait_for_signal && !signals.empty()) {
      co_return co_await exchange.write(
          Json::object({{"type", "exit"}, {"signal", signals.front()}, {"state", "killed"}})
              .dump() +
          "\n");
    }
    CO_TRY_DO(co_await process_news_.wait());
  }
}

Task<> FakeApi::answer_input(http::Exchange& exchange) {
  CO_TRY(const auto body, co_await read_json(exchange));
  if (const Json* data = body.find("data_base64")) {
    input += base64_decode(*data->as_string()).value_or("");
  }
  input_ended = input_ended || body.find("eof") != nullptr;
  if (const Json* signal = body.find("signal")) {
    signals.push_back(*signal->as_string());
  }
  process_news_.set();
  co_return co_await answer_data(exchange, 200, Json::object());
}

Task<> FakeApi::answer_file_write(http::Exchange& exchange) {
  const auto path = path_parameter(exchange);
  if (http::query_value(exchange.request().query, "mkdir")) {
    files.insert_or_assign(path, FakeFile{.type = "dir", .content = {}});
    co_return co_await answer_data(exchange, 201, Json::object({{"created", true}}));
  }
  CO_TRY(auto content, co_await http::read_all(exchange.body(), 64U << 20));
  files.insert_or_assign(path, FakeFile{.content = std::move(content)});
  co_return co_await answer_data(exchange, 200, Json::object({{"written", true}}));
}

Task<> FakeApi::answer_file_read(http::Exchange& exchange) {
  const auto found = files.find(path_parameter(exchange));
  if (found == files.end()) {
    co_return co_await answer_error(exchange, 404, "file_not_found");
  }
  co_return co_await exchange.respond(
      {.status = 200, .headers = {}, .body = found->second.content});
}

Task<> FakeApi::answer_file_stat(http::Exchange& exchange) {
  const auto found = files.find(path_parameter(exchange));
  if (found == files.end()) {
    co_return co_await answer_error(exchange, 404, "file_not_found");
  }
  co_return co_await answer_data(exchange, 200, file_json(found->first, found->second, true));
}

Task<> FakeApi::answer_file_list(http::Exchange& exchange) {
  const auto prefix = path_parameter(exchange) + "/";
  Json entries = Json::array();
  for (const auto& [path, file] : files) {
    if (path.starts_with(prefix) && path.find('/', prefix.size()) == std::string::npos) {
      entries.push(file_json(path, file, false));
    }
  }
  co_return co_await answer_data(exchange, 200, Json::object({{"entries", std::move(entries)}}));
}

}  // namespace atl::cli
