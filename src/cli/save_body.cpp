#include "cli/save_body.h"

#include "base/strings.h"
#include "cli/api.h"
#include "cli/drain.h"
#include "cli/progress.h"
#include "cli/temporary_file.h"

namespace atl::cli {
namespace {

constexpr unsigned kFileMode = 0644;

Task<> save_to_output(CommandContext& context, http::ClientResponse& response,
                      std::uint64_t& bytes) {
  CO_TRY(auto writer, SharedWriter::open(context.reactor, context.console.output()));
  WriteToOutput write{*writer};
  co_return co_await drain(response, context.endpoint, bytes, write);
}

Task<> save_to_file(CommandContext& context, http::ClientResponse& response,
                    std::string destination, std::uint64_t& bytes) {
  const auto slash = destination.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : destination.substr(0, slash + 1);
  const std::string name = destination.substr(slash == std::string::npos ? 0 : slash + 1);
  const Fd directory{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory) {
    co_return fail_errno(concat("opening ", parent));
  }
  TemporaryFile file{directory.get(), kFileMode};
  if (name.empty() || !file.is_open()) {
    co_return fail(Code::kInvalidArgument, concat("cannot write ", destination, ": name a file"));
  }
  WriteToFile write{file.fd()};
  CO_TRY_DO(co_await drain(response, context.endpoint, bytes, write));
  co_return file.publish(name);
}

}  // namespace

Task<int> save_body(CommandContext& context, std::string path, std::string destination,
                    std::string doing) {
  const bool to_output = destination == "-";
  if (to_output && context.options.json) {
    co_return fail(Code::kInvalidArgument,
                   "-o json and an archive on standard output would both write there",
                   kReasonUsage);
  }
  if (to_output && context.console.output_is_terminal()) {
    co_return fail(Code::kInvalidArgument,
                   "an archive is not for a terminal; name a file, or use a pipe", kReasonUsage);
  }
  Api api{context.reactor, context.endpoint};
  CO_TRY(const auto response, co_await api.open(std::move(path)));
  std::uint64_t bytes = 0;
  const Instant started = context.reactor.now();
  const auto describe = [&] {
    const std::chrono::duration<double> elapsed = context.reactor.now() - started;
    return concat(doing, "  ", describe_transfer(bytes, 0, elapsed.count()));
  };
  CO_TRY_DO(co_await with_progress(context.console, context.options.quiet, describe,
                                   to_output
                                       ? save_to_output(context, *response, bytes)
                                       : save_to_file(context, *response, destination, bytes)));
  if (context.options.json) {
    context.console.print(Json::object({{"file", destination}, {"bytes", bytes}}).dump_pretty() +
                          "\n");
  }
  co_return 0;
}

}  // namespace atl::cli
