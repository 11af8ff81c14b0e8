// Processes in the guest protocol: starting, attaching, what one is and how it ended.
#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/wire.h"
#include "guest/wire_checks.h"

namespace atl::guest {
namespace {

Result<> check_signal(std::uint32_t signal) {
  if (signal < 1 || signal > 64) {
    return refuse(concat("signal ", signal, " is not between 1 and 64"), "bad_signal");
  }
  return {};
}

Result<> check_pty(const PtySize& size) {
  if (size.rows < 1 || size.rows > kMaxPtyCells || size.columns < 1 ||
      size.columns > kMaxPtyCells) {
    return refuse(concat("terminal size must be 1 to ", kMaxPtyCells, " rows and columns"),
                  "bad_terminal_size");
  }
  return {};
}

Result<> check_argv(const std::vector<std::string>& argv) {
  if (argv.empty() || argv[0].empty()) {
    return refuse("argv needs a program name", "bad_argv");
  }
  if (argv.size() > kMaxArguments) {
    return refuse(concat("argv has more than ", kMaxArguments, " arguments"), "argv_too_long");
  }
  std::size_t total_bytes = 0;
  for (const auto& argument : argv) {
    total_bytes += argument.size() + 4;
    if (has_nul(argument)) {
      return refuse("an argument has a NUL byte", "bad_argv");
    }
  }
  if (total_bytes > kMaxArgvBytes) {
    return refuse(concat("argv is longer than ", kMaxArgvBytes, " bytes"), "argv_too_long");
  }
  return {};
}

Result<> check_env(const std::vector<std::string>& env) {
  if (env.size() > kMaxVariables) {
    return refuse(concat("env has more than ", kMaxVariables, " variables"), "env_too_long");
  }
  for (const auto& variable : env) {
    const auto equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos || has_nul(variable)) {
      return refuse("each env entry must be NAME=VALUE without NUL bytes", "bad_env");
    }
  }
  return {};
}

Result<> check_spawn(const SpawnRequest& request) {
  TRY_DO(validate_process_id(request.process_id));
  TRY_DO(check_argv(request.argv));
  TRY_DO(check_env(request.env));
  TRY_DO(check_user(request.user));
  if (!request.cwd.empty()) {
    TRY_DO(validate_user_path(request.cwd));
  }
  if (request.pty) {
    TRY_DO(check_pty(*request.pty));
  }
  if (request.timeout_ms > kMaxTimeoutMs) {
    return refuse(concat("timeout is longer than ", kMaxTimeoutMs, " ms"), "bad_timeout");
  }
  if (request.idle_timeout_ms > kMaxTimeoutMs) {
    return refuse(concat("idle timeout is longer than ", kMaxTimeoutMs, " ms"), "bad_timeout");
  }
  if (request.forget_after_ms > kMaxTimeoutMs) {
    return refuse("a process is not kept that long after its end", "bad_timeout");
  }
  if (request.journal_bytes > kMaxJournalBytes) {
    return refuse(concat("journal is larger than ", kMaxJournalBytes, " bytes"), "bad_journal");
  }
  if (request.label.size() > kMaxLabelBytes) {
    return refuse(concat("label is longer than ", kMaxLabelBytes, " bytes"), "bad_label");
  }
  return {};
}

void put_exit(ByteWriter& out, const ExitStatus& status) {
  out.boolean(status.exited).u32(status.exit_code).u32(status.signal).boolean(status.timed_out);
  out.boolean(status.idle_timed_out);
}

ExitStatus take_exit(ByteReader& in) {
  ExitStatus status;
  status.exited = in.boolean();
  status.exit_code = in.u32();
  status.signal = in.u32();
  status.timed_out = in.boolean();
  status.idle_timed_out = in.boolean();
  return status;
}

Result<> check_exit(const ExitStatus& status) {
  if (status.exit_code > 255 || status.signal > 127) {
    return refuse("exit status is out of range");
  }
  return {};
}

}  // namespace

Result<> validate(const SpawnRequest& request) {
  TRY_DO(check_spawn(request));
  if (encode(request).size() > kMaxPayloadBytes) {
    return refuse(
        concat("arguments and environment together are longer than ", kMaxPayloadBytes, " bytes"),
        "env_too_long");
  }
  return {};
}

std::string encode(const SpawnRequest& request) {
  ByteWriter out;
  out.string(request.process_id).strings(request.argv).strings(request.env);
  out.string(request.cwd).string(request.user).boolean(request.stdin_open);
  out.boolean(request.pty.has_value());
  if (request.pty) {
    out.u32(request.pty->rows).u32(request.pty->columns);
  }
  out.u64(request.timeout_ms).boolean(request.keep).u32(request.journal_bytes);
  out.boolean(request.channel).u64(request.idle_timeout_ms);
  out.boolean(request.pty_driven).string(request.label);
  if (request.forget_after_ms > 0) {  // guests of an older build do not know it
    out.u64(request.forget_after_ms);
  }
  return std::move(out).bytes();
}

Result<SpawnRequest> decode_spawn(std::string_view payload) {
  ByteReader in{payload};
  SpawnRequest request;
  request.process_id = in.string();
  request.argv = in.strings();
  request.env = in.strings();
  request.cwd = in.string();
  request.user = in.string();
  request.stdin_open = in.boolean();
  if (in.boolean()) {
    request.pty.emplace();
    request.pty->rows = in.u32();
    request.pty->columns = in.u32();
  }
  request.timeout_ms = in.u64();
  request.keep = in.boolean();
  request.journal_bytes = in.u32();
  request.channel = in.boolean();
  request.idle_timeout_ms = in.u64();
  request.pty_driven = in.boolean();
  request.label = in.string();
  if (in.remaining() > 0) {
    request.forget_after_ms = in.u64();
  }
  TRY_DO(in.finish());
  TRY_DO(check_spawn(request));
  return request;
}

std::string encode(const CaptureRequest& request) {
  ByteWriter out;
  out.string(request.process_id).u32(request.pid).u32(request.channel).u64(request.max_bytes);
  if (request.own_memory) {  // only then: agents that are older do not know it
    out.u8(1);
  }
  return std::move(out).bytes();
}

Result<CaptureRequest> decode_capture(std::string_view payload) {
  ByteReader in{payload};
  CaptureRequest request;
  request.process_id = in.string();
  request.pid = in.u32();
  request.channel = in.u32();
  request.max_bytes = in.u64();
  request.own_memory = in.remaining() > 0 && in.u8() == 1;
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(request.process_id));
  if (request.pid < 2 || request.pid > INT32_MAX || request.channel > kMaxChannelNumber ||
      request.max_bytes < 1) {
    return fail(Code::kInvalidArgument, "capture request is out of range", "malformed");
  }
  return request;
}

std::string encode(const ReviveRequest& request) {
  return ByteWriter{}.string(encode(request.spawn)).string(request.description).bytes();
}

Result<ReviveRequest> decode_revive(std::string_view payload) {
  ByteReader in{payload};
  const auto spawn = in.view();
  ReviveRequest request;
  request.description = in.string();
  TRY_DO(in.finish());
  TRY(request.spawn, decode_spawn(spawn));
  if (request.spawn.pty || request.spawn.stdin_open ||
      request.description.size() > kMaxDescriptionBytes) {
    return fail(Code::kInvalidArgument, "revive request is out of range", "malformed");
  }
  return request;
}

std::string encode(const AttachRequest& request) {
  return ByteWriter{}
      .string(request.process_id)
      .u64(request.from_offset)
      .boolean(request.describe)
      .bytes();
}

Result<AttachRequest> decode_attach(std::string_view payload) {
  ByteReader in{payload};
  AttachRequest request;
  request.process_id = in.string();
  request.from_offset = in.u64();
  request.describe = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(request.process_id));
  return request;
}

std::string encode(const SignalProcessRequest& request) {
  return ByteWriter{}.string(request.process_id).u32(request.signal).bytes();
}

Result<SignalProcessRequest> decode_signal_process(std::string_view payload) {
  ByteReader in{payload};
  SignalProcessRequest request;
  request.process_id = in.string();
  request.signal = in.u32();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(request.process_id));
  TRY_DO(check_signal(request.signal));
  return request;
}

std::string encode(const PtySize& size) {
  return ByteWriter{}.u32(size.rows).u32(size.columns).bytes();
}

Result<PtySize> decode_pty_size(std::string_view payload) {
  ByteReader in{payload};
  PtySize size;
  size.rows = in.u32();
  size.columns = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_pty(size));
  return size;
}

std::string encode(const ExitStatus& status) {
  ByteWriter out;
  put_exit(out, status);
  return std::move(out).bytes();
}

Result<ExitStatus> decode_exit(std::string_view payload) {
  ByteReader in{payload};
  const ExitStatus status = take_exit(in);
  TRY_DO(in.finish());
  TRY_DO(check_exit(status));
  return status;
}

std::string encode(const ProcessInfo& info) {
  ByteWriter out;
  out.string(info.process_id).u32(info.pid).strings(info.argv).string(info.cwd);
  out.string(info.user).i64(info.started_unix_ms);
  out.boolean(info.keep).boolean(info.pty).boolean(info.running);
  put_exit(out, info.exit);
  out.u64(info.output_bytes).u64(info.journal_first_offset).boolean(info.has_channel);
  out.string(info.label);
  return std::move(out).bytes();
}

Result<ProcessInfo> decode_process(std::string_view payload) {
  ByteReader in{payload};
  ProcessInfo info;
  info.process_id = in.string();
  info.pid = in.u32();
  info.argv = in.strings();
  info.cwd = in.string();
  info.user = in.string();
  info.started_unix_ms = in.i64();
  info.keep = in.boolean();
  info.pty = in.boolean();
  info.running = in.boolean();
  info.exit = take_exit(in);
  info.output_bytes = in.u64();
  info.journal_first_offset = in.u64();
  info.has_channel = in.boolean();
  info.label = in.string();
  TRY_DO(in.finish());
  TRY_DO(validate_process_id(info.process_id));
  TRY_DO(check_argv(info.argv));
  TRY_DO(check_user(info.user));
  TRY_DO(check_exit(info.exit));
  if (info.cwd.size() > kMaxPathBytes || has_nul(info.cwd)) {
    return fail(Code::kInvalidArgument, "working directory is malformed", "malformed");
  }
  if (info.label.size() > kMaxLabelBytes) {
    return fail(Code::kInvalidArgument, "label is malformed", "malformed");
  }
  return info;
}

}  // namespace atl::guest
