#include "node/cell_records.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/fault_point.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strings.h"
#include "node/limits.h"
#include "node/protocol.h"

namespace atl::node {
namespace {

constexpr std::array<std::string_view, 3> kStateNames = {"creating", "running", "dead"};

std::optional<StoredCell::State> parse_state(std::string_view text) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == text) {
      return static_cast<StoredCell::State>(i);
    }
  }
  return std::nullopt;
}

// "layers a,b\n", or nothing.
std::string format_names(std::string_view key, const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names) {
    line += line.empty() ? concat(key, " ") : ",";
    line += name;
  }
  return line.empty() ? line : line + "\n";
}

Error damaged(std::string_view id, std::string_view line) {
  return Error{Code::kDataLoss, concat("the record of cell ", id, " has a damaged line: ", line),
               "damaged_record"};
}

// As the kernel writes it: hexadecimal digits in five groups.
bool is_boot_id(std::string_view text) {
  return text.size() == 36 && text.find_first_not_of("0123456789abcdef-") == text.npos;
}

// Records that fit are filled up to one size with empty lines, so that one write within one page
// replaces the other completely: a process cannot be killed in the middle of that. A second file
// with a rename would be as good, but making and deleting a file for each is what costs most.
constexpr std::size_t kBlockBytes = 1024;

// False when there is nothing to overwrite, or more than a block.
Result<bool> overwrite_block(const std::string& path, std::string_view block) {
  const Fd fd{::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return errno == ENOENT ? Result<bool>{false} : fail_errno(concat("opening ", path));
  }
  if (static_cast<std::size_t>(status.st_size) > block.size()) {
    return false;
  }
  const ssize_t wrote = ::pwrite(fd.get(), block.data(), block.size(), 0);
  if (wrote != static_cast<ssize_t>(block.size())) {
    return fail(errno_error(concat("writing ", path), wrote < 0 ? errno : ENOSPC));
  }
  return true;
}

// Reads one "name value" line into its member.
Result<> parse_line(StoredCell& cell, std::string_view line) {
  const auto space = line.find(' ');
  const std::string_view name = line.substr(0, space);
  const std::string_view value = space == line.npos ? "" : line.substr(space + 1);
  if (name == "state") {
    const auto state = parse_state(value);
    if (!state) {
      return fail(damaged(cell.id, line));
    }
    cell.state = *state;
    return {};
  }
  if (name == "layers" || name == "volumes" || name == "read_volumes") {
    auto& names = name == "layers"    ? cell.layers
                  : name == "volumes" ? cell.volumes
                                      : cell.read_volumes;
    for (const std::string_view each : split(value, ',')) {
      if (!(name == "layers" ? is_layer_id(each) : is_volume_id(each))) {
        return fail(damaged(cell.id, line));
      }
      names.emplace_back(each);
    }
    return {};
  }
  if (name == "boot_id" && is_boot_id(value)) {
    cell.boot_id = value;
    return {};
  }
  const auto number = parse_u64(value);
  if (!number) {
    return fail(damaged(cell.id, line));
  }
  if (name == "pid" && *number <= INT32_MAX) {
    cell.pid = static_cast<std::int32_t>(*number);
  } else if (name == "start_time") {
    cell.start_time = *number;
  } else if (name == "uid_base" && *number <= UINT32_MAX) {
    cell.uid_base = static_cast<std::uint32_t>(*number);
  } else if (name == "fresh_upper" && *number <= 1) {
    cell.fresh_upper = *number == 1;
  } else {
    return fail(damaged(cell.id, line));
  }
  return {};
}

}  // namespace

std::string format_record(const StoredCell& cell) {
  return concat("state ", kStateNames[static_cast<std::size_t>(cell.state)], "\npid ", cell.pid,
                "\nstart_time ", cell.start_time, "\nuid_base ", cell.uid_base, "\nfresh_upper ",
                cell.fresh_upper ? 1 : 0, "\n", cell.boot_id.empty() ? "" : "boot_id ",
                cell.boot_id, cell.boot_id.empty() ? "" : "\n", format_names("layers", cell.layers),
                format_names("volumes", cell.volumes),
                format_names("read_volumes", cell.read_volumes));
}

Result<StoredCell> parse_record(std::string_view id, std::string_view text) {
  StoredCell cell;
  cell.id = id;
  std::size_t lines = 0;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) {
      TRY_DO(parse_line(cell, line));
      ++lines;
    }
  }
  const auto optional_lines =
      std::ranges::count_if(std::initializer_list{&cell.layers, &cell.volumes, &cell.read_volumes},
                            [](const auto* names) { return !names->empty(); });
  if (lines != 5 + static_cast<std::size_t>(optional_lines) + (cell.boot_id.empty() ? 0 : 1)) {
    return fail(damaged(id, "(lines are missing)"));
  }
  return cell;
}

Result<std::string> read_boot_id() {
  TRY(const std::string text, read_file("/proc/sys/kernel/random/boot_id", 64));
  const std::string_view id = trim(text);
  if (!is_boot_id(id)) {
    return fail(Code::kInternal, "the kernel's boot id cannot be read");
  }
  return std::string{id};
}

Result<> CellRecords::put(const StoredCell& cell) const {
  CHECK(is_cell_id(cell.id));
  TRY_DO(ATOLL_FAULT_CHECK("node.record.put"));
  const std::string path = concat(directory_, "/", cell.id);
  std::string text = format_record(cell);
  if (text.size() <= kBlockBytes) {
    text.append(kBlockBytes - text.size(), '\n');
    TRY(const bool written, overwrite_block(path, text));
    if (written) {
      return {};
    }
  }
  return replace_file(path, text, {.mode = 0600});
}

Result<> CellRecords::remove(const std::string& id) const {
  CHECK(is_cell_id(id));
  TRY_DO(ATOLL_FAULT_CHECK("node.record.remove"));
  const std::string path = concat(directory_, "/", id);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(concat("removing ", path));
  }
  return {};
}

Result<std::vector<StoredCell>> CellRecords::load() const {
  const std::unique_ptr<DIR, decltype(&::closedir)> directory{::opendir(directory_.c_str()),
                                                              &::closedir};
  if (directory == nullptr) {
    return fail_errno(concat("opening ", directory_));
  }
  std::vector<StoredCell> cells;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    const std::string path = concat(directory_, "/", name);
    if (name == "." || name == "..") {
      continue;
    }
    if (!is_cell_id(name)) {  // the temporary file of a replacement that was cut short
      ::unlink(path.c_str());
      continue;
    }
    const auto text = read_file(path, kMaxRecordBytes);
    auto cell = text ? parse_record(name, *text) : Result<StoredCell>{fail(text.error())};
    if (!cell) {
      LOG_WARN("a cell's record cannot be read", {"cell", name}, {"error", cell.error()});
      cell = StoredCell{.id = name, .state = StoredCell::State::kDead};
    }
    cells.push_back(*std::move(cell));
  }
  return cells;
}

}  // namespace atl::node
