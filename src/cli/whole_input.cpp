#include "cli/whole_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::cli {

Result<std::string> read_whole_input(const Console& console, const std::string& file) {
  const bool standard = file.empty() || file == "-";
  const Fd opened{standard ? -1 : ::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!standard && !opened) {
    return fail_errno(concat("opening ", file));
  }
  const int fd = standard ? console.input() : opened.get();
  std::string text;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0) {
      return fail_errno(concat("reading ", standard ? "standard input" : file));
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxDocumentBytes) {
      return fail(Code::kInvalidArgument, concat(standard ? "standard input" : file,
                                                 " has more than ", kMaxDocumentBytes, " bytes"));
    }
  }
}

}  // namespace atl::cli
