#include "runtime/namespaces/dump_files.h"

#include <time.h>

#include <sstream>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::runtime::namespaces {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t now_of(clockid_t clock) {
  timespec now{};
  CHECK(::clock_gettime(clock, &now) == 0);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The kernel wants nanoseconds that are not negative.
std::string offset_line(std::string_view clock, std::int64_t offset_ns) {
  std::int64_t seconds = offset_ns / kSecond;
  std::int64_t rest = offset_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  return concat(clock, " ", seconds, " ", rest, "\n");
}

}  // namespace

std::string dumped_guest(const std::string& dump) {
  return dump + "/guest";
}
std::string dumped_boot_id(const std::string& dump) {
  return dump + "/boot_id";
}
std::string dumped_images(const std::string& dump) {
  return dump + "/images";
}

Clocks read_host_clocks() {
  return {now_of(CLOCK_MONOTONIC), now_of(CLOCK_BOOTTIME)};
}

Result<std::string> read_boot_id() {
  TRY(const std::string text, read_file("/proc/sys/kernel/random/boot_id"));
  return std::string{trim(text)};
}

Result<Clocks> read_time_offsets(int pid) {
  const auto text = read_file(concat("/proc/", pid, "/timens_offsets"));
  if (!text) {
    return Clocks{};  // a kernel without time namespaces
  }
  Clocks offsets;
  std::istringstream lines{*text};
  std::string clock;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  while (lines >> clock >> seconds >> nanoseconds) {
    (clock == "monotonic" ? offsets.monotonic_ns : offsets.boottime_ns) =
        seconds * kSecond + nanoseconds;
  }
  return offsets;
}

Result<> write_dump_facts(const std::string& dump, const DumpFacts& facts) {
  const std::string text = concat(facts.listener_inode, " ", facts.boot_id, " ",
                                  facts.host.monotonic_ns, " ", facts.host.boottime_ns, " ",
                                  facts.offsets.monotonic_ns, " ", facts.offsets.boottime_ns, "\n");
  return replace_file(dump + "/facts", text, {});
}

Result<DumpFacts> read_dump_facts(const std::string& dump) {
  TRY(const std::string text, read_file(dump + "/facts"));
  std::istringstream words{text};
  DumpFacts facts;
  words >> facts.listener_inode >> facts.boot_id >> facts.host.monotonic_ns >>
      facts.host.boottime_ns >> facts.offsets.monotonic_ns >> facts.offsets.boottime_ns;
  if (!words) {
    return fail(Code::kDataLoss, "the dump's facts cannot be read");
  }
  return facts;
}

Result<std::string> time_offsets_of(const std::string& dump) {
  TRY(const DumpFacts facts, read_dump_facts(dump));
  TRY(const std::string boot_id, read_boot_id());
  Clocks offsets = facts.offsets;
  if (boot_id != facts.boot_id) {
    const Clocks now = read_host_clocks();
    offsets.monotonic_ns += facts.host.monotonic_ns - now.monotonic_ns;
    offsets.boottime_ns += facts.host.boottime_ns - now.boottime_ns;
  }
  if (offsets.monotonic_ns == 0 && offsets.boottime_ns == 0) {
    return std::string{};
  }
  return offset_line("monotonic", offsets.monotonic_ns) +
         offset_line("boottime", offsets.boottime_ns);
}

}  // namespace atl::runtime::namespaces
