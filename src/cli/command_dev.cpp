// `atoll dev --print`: everything a client needs to use the server, to copy and paste.
//
// Without --print main.cpp starts a server first and then runs this. The key is printed on purpose:
// this is for one's own machine.
#include "base/strings.h"
#include "cli/api.h"
#include "cli/api_error.h"
#include "cli/commands.h"

namespace atl::cli {
namespace {

struct Snippet {
  std::string name;  // in JSON
  std::string title;
  std::string text;
};

std::vector<Snippet> snippets_of(const std::string& url, const std::string& key) {
  return {
      {"shell", "This command line",
       concat("export ATOLL_API_URL=", url, " ATOLL_API_KEY=", key,
              "\natoll run --rm -- python3 -c 'print(6 * 7)'\n")},
      {"curl", "curl",
       concat("curl -s ", url, "/api/v1/sandboxes -H 'Authorization: Bearer ", key,
              "' \\\n     -H 'Content-Type: application/json' -d '{\"template\":\"default\"}'\n")},
      {"python", "Python (pip install atoll-sandbox; reads the two variables above)",
       "from atoll_sandbox import Sandbox\n\n"
       "with Sandbox.create() as sandbox:\n"
       "    print(sandbox.run_code(\"6 * 7\").text)\n"},
      {"javascript", "JavaScript (npm install @atoll/sandbox; reads the two variables above)",
       "import { Sandbox } from '@atoll/sandbox'\n\n"
       "await Sandbox.with(async sandbox => {\n"
       "  console.log((await sandbox.runCode('6 * 7')).text)\n"
       "})\n"},
      {"sandbox0_javascript", "Sandbox0's official JavaScript SDK (npm install sandbox0)",
       concat("import { Client } from 'sandbox0'\n\nconst client = new Client({ token: '", key,
              "', baseUrl: '", url, "' })\n")},
      {"sandbox0_python", "Sandbox0's official Python SDK (pip install sandbox0)",
       concat("from sandbox0 import Client\n\nclient = Client(token=\"", key, "\", base_url=\"",
              url, "\")\n")},
  };
}

// The E2B clients want keys of their own shape.
std::string e2b_key(std::string_view key) {
  return concat("e2b_", key.substr(key.rfind('_') + 1));
}

Snippet e2b_snippet(const std::string& url, const std::string& key, bool spoken) {
  if (!spoken) {
    return {"e2b", "E2B", "This server does not speak E2B's dialect yet; a later one will.\n"};
  }
  return {"e2b", "E2B (pip install e2b-code-interpreter; npm install @e2b/code-interpreter)",
          concat("export E2B_API_URL=", url, " E2B_SANDBOX_URL=", url, " E2B_VOLUME_API_URL=", url,
                 "\nexport E2B_API_KEY=", e2b_key(key), "\n")};
}

bool speaks_e2b(const Result<Json>& metadata) {
  const Json* dialects = metadata ? metadata->find("dialects") : nullptr;
  if (dialects == nullptr || dialects->as_array() == nullptr) {
    return false;
  }
  return std::ranges::find(*dialects->as_array(), Json{"e2b"}) != dialects->as_array()->end();
}

std::string render(const CommandContext& context, const std::string& url, const std::string& key,
                   const std::vector<Snippet>& snippets) {
  const auto& console = context.console;
  std::string out = concat("\n  URL  ", console.paint_output(Colour::kBold, url), "\n  Key  ",
                           console.paint_output(Colour::kBold, key), "\n");
  for (const auto& snippet : snippets) {
    out += concat("\n", console.paint_output(Colour::kGreen, concat("# ", snippet.title)), "\n",
                  snippet.text);
  }
  return out;
}

}  // namespace

Task<int> command_dev(CommandContext& context, const DevOptions&) {
  const auto& endpoint = context.endpoint;
  const std::string key = endpoint.key.reveal();
  if (key.empty()) {
    co_return fail(Code::kUnauthenticated, "no key to print");
  }
  Api api{context.reactor, endpoint};
  // Refused here is better than refused in somebody's program.
  CO_TRY_DO(co_await api.call("GET", "/api/v1/sandboxes?limit=1"));
  const auto metadata = co_await api.call("GET", "/metadata");
  auto snippets = snippets_of(endpoint.url_text, key);
  snippets.push_back(e2b_snippet(endpoint.url_text, key, speaks_e2b(metadata)));
  if (!context.options.json) {
    context.console.print(render(context, endpoint.url_text, key, snippets));
    co_return 0;
  }
  Json texts = Json::object();
  for (const auto& snippet : snippets) {
    texts.set(snippet.name, snippet.text);
  }
  context.console.print(Json::object({{"url", endpoint.url_text},
                                      {"api_key", key},
                                      {"e2b", speaks_e2b(metadata)},
                                      {"snippets", std::move(texts)}})
                            .dump_pretty() +
                        "\n");
  co_return 0;
}

}  // namespace atl::cli
