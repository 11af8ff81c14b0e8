// Searching names and lines below a directory.
//
// The expression is the caller's and the files are anybody's: a search may take for ever or ask
// for any amount of memory. So it has a bound on memory, and it ends with its client: the kernel
// signals a hang-up of the socket also in the middle of a match.
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "guest/files.h"
#include "guest/glob.h"
#include "guest/limits.h"
#include "guest/tree_visit.h"

namespace atl::guest {
namespace {

int g_client = -1;  // for the signal handler; this process serves one request

void exit_if_client_gone(int) {
  const int error_number = errno;
  pollfd entry{.fd = g_client, .events = 0, .revents = 0};
  if (::poll(&entry, 1, 0) > 0) {
    ::_exit(0);
  }
  errno = error_number;
}

Result<> end_with_client(int socket) {
  g_client = socket;
  struct sigaction action{};
  action.sa_handler = exit_if_client_gone;
  action.sa_flags = SA_RESTART;
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGIO);
  const int flags = ::fcntl(socket, F_GETFL);
  if (::sigaction(SIGIO, &action, nullptr) != 0 || ::fcntl(socket, F_SETOWN, ::getpid()) != 0 ||
      ::fcntl(socket, F_SETFL, flags | O_ASYNC) != 0 ||
      ::sigprocmask(SIG_UNBLOCK, &signals, nullptr) != 0) {
    return fail_errno("watching the client");
  }
  exit_if_client_gone(0);
  return {};
}

void limit_memory() {
  rlim_t used_bytes = 0;
  if (const auto statm = atl::read_file("/proc/self/statm")) {
    constexpr std::size_t kDataField = 5;
    const auto fields = split(trim(*statm), ' ');
    if (fields.size() > kDataField) {
      used_bytes = parse_u64(fields[kDataField]).value_or(0) *
                   static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    }
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, used_bytes + kMaxSearchMemoryBytes);
  ::setrlimit(RLIMIT_DATA, &limit);
}

class Expression {
 public:
  Expression() = default;
  ~Expression() {
    if (compiled_) {
      ::regfree(&regex_);
    }
  }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  Result<> compile(const std::string& pattern, bool ignore_case) {
    const int flags = REG_EXTENDED | REG_NOSUB | (ignore_case ? REG_ICASE : 0);
    const int status = ::regcomp(&regex_, pattern.c_str(), flags);
    if (status == REG_ESPACE) {
      return fail(Code::kResourceExhausted, "content_regex needs too much memory",
                  "regex_too_complex");
    }
    if (status != 0) {
      char text[256];
      ::regerror(status, &regex_, text, sizeof text);
      return fail(Code::kInvalidArgument, concat("content_regex: ", text), "bad_regex");
    }
    compiled_ = true;
    return {};
  }

  // Nothing when this line needs too much memory.
  std::optional<bool> matches(std::string_view line) const {
    regmatch_t bounds{};
    bounds.rm_so = 0;
    bounds.rm_eo = static_cast<regoff_t>(line.size());
    const int status = ::regexec(&regex_, line.data(), 0, &bounds, REG_STARTEND);
    if (status != 0 && status != REG_NOMATCH) {
      return std::nullopt;
    }
    return status == 0;
  }

 private:
  regex_t regex_{};
  bool compiled_ = false;
};

class Search final : public Visitor {
 public:
  Search(FileChannel& channel, const SearchRequest& request)
      : channel_(channel),
        request_(request),
        glob_(request.name_glob, request.ignore_case),
        path_(clean_path(request.path)) {
    for (const std::string& pattern : request.included) {
      included_.emplace_back(pattern, request.ignore_case);
    }
    for (const std::string& pattern : request.excluded) {
      excluded_.emplace_back(pattern, request.ignore_case);
    }
  }

  Result<> run() {
    if (!request_.content_regex.empty()) {
      TRY_DO(expression_.compile(request_.content_regex, request_.ignore_case));
    }
    struct stat status{};
    directory_ = ::stat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    TRY_DO(visit_tree(path_, *this));
    return channel_.send(Kind::kEnd, encode(end_));
  }

  Result<Next> on_entry(const Visit& visit) override {
    const FileInfo info = make_file_info(visit.name, visit.path, visit.status);
    if (matches_any(excluded_, visit.path)) {
      return Next::kSkip;
    }
    if (!glob_.matches(visit.path) || (!included_.empty() && !matches_any(included_, visit.path))) {
      return Next::kContinue;
    }
    Match match{.path = directory_ ? concat(path_ == "/" ? "" : path_, "/", visit.path) : path_,
                .type = info.type,
                .size = info.size};
    if (request_.content_regex.empty()) {
      return report(match);
    }
    if (info.type != FileType::kFile) {
      return Next::kContinue;
    }
    const Fd fd{::openat(visit.directory, visit.name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    struct stat opened{};
    if (!fd || ::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode) ||
        info.size > request_.max_file_bytes) {
      ++end_.skipped_files;
      return Next::kContinue;
    }
    return search_lines(fd.get(), match);
  }

  Result<> on_obstacle(const std::string& path, Error error) override {
    (void)path;
    (void)error;
    ++end_.skipped_files;
    return {};
  }

 private:
  static bool matches_any(const std::vector<Glob>& globs, std::string_view path) {
    return std::ranges::any_of(globs, [&](const Glob& glob) { return glob.matches(path); });
  }

  Result<Next> report(const Match& match) {
    if (results_ == request_.max_results) {
      end_.truncated = true;
      return Next::kStop;
    }
    ++results_;
    TRY_DO(channel_.send(Kind::kMatch, encode(match)));
    return Next::kContinue;
  }

  Result<Next> search_lines(int fd, Match& match) {
    std::string buffer;
    std::uint64_t total_bytes = 0;
    match.line_number = 0;
    scanned_bytes_ = 0;
    before_.clear();
    lines_after_ = 0;
    for (bool probed = false, ended = false; !ended;) {
      const std::size_t kept = buffer.size();
      buffer.resize(kept + kMaxPieceBytes);
      const ssize_t got = ::read(fd, buffer.data() + kept, kMaxPieceBytes);
      if (got < 0 && errno != EINTR) {
        ++end_.skipped_files;
        return Next::kContinue;
      }
      const auto size = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
      buffer.resize(kept + size);
      total_bytes += size;
      ended = got == 0;
      if (total_bytes > request_.max_file_bytes) {
        ++end_.skipped_files;  // it grew, or never said its size
        return Next::kContinue;
      }
      if (!probed && !ended && buffer.size() < kBinaryProbeBytes) {
        continue;
      }
      if (!probed && std::string_view{buffer}.substr(0, kBinaryProbeBytes).contains('\0')) {
        return Next::kContinue;
      }
      probed = true;
      TRY(const Next next, search_buffer(buffer, ended, match));
      if (next == Next::kSkip || buffer.size() > kMaxSearchLineBytes) {
        ++end_.skipped_files;
        return Next::kContinue;
      }
      if (next == Next::kStop) {
        return next;
      }
    }
    return Next::kContinue;
  }

  // Takes the complete lines off the buffer; at the end also the last one without a newline.
  // kSkip: no more of this file.
  Result<Next> search_buffer(std::string& buffer, bool ended, Match& match) {
    std::string_view rest = buffer;
    for (;;) {
      const auto newline = rest.find('\n', scanned_bytes_);
      scanned_bytes_ = 0;
      if (newline == std::string_view::npos && (!ended || rest.empty())) {
        break;
      }
      const std::string_view line = rest.substr(0, newline);
      rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
      ++match.line_number;
      const auto found = expression_.matches(line);
      if (!found) {
        return Next::kSkip;
      }
      if (*found) {
        match.line_text = line.substr(0, kMaxLineBytes);
        TRY(const Next next, report_line(match));
        if (next == Next::kStop) {
          return next;
        }
      } else if (request_.context_lines > 0) {
        match.line_text = line.substr(0, kMaxLineBytes);
        TRY_DO(keep_context(match));
      }
    }
    buffer.erase(0, buffer.size() - rest.size());
    scanned_bytes_ = buffer.size();  // so that a long line is not looked through again and again
    return Next::kContinue;
  }

  // With what was kept of the lines before it.
  Result<Next> report_line(const Match& match) {
    if (results_ < request_.max_results) {
      for (const Match& line : before_) {
        TRY_DO(channel_.send(Kind::kMatch, encode(line)));
      }
    }
    before_.clear();
    lines_after_ = request_.context_lines;
    return report(match);
  }

  // A line that does not match: it follows one that does, or one may follow it.
  Result<> keep_context(const Match& match) {
    Match line = match;
    line.context = true;
    if (lines_after_ > 0) {
      --lines_after_;
      return channel_.send(Kind::kMatch, encode(line));
    }
    if (before_.size() == request_.context_lines) {
      before_.pop_front();
    }
    before_.push_back(std::move(line));
    return {};
  }

  FileChannel& channel_;
  const SearchRequest& request_;
  const Glob glob_;
  std::vector<Glob> included_;
  std::vector<Glob> excluded_;
  std::deque<Match> before_;
  std::uint32_t lines_after_ = 0;
  const std::string path_;
  bool directory_ = false;
  Expression expression_;
  std::uint32_t results_ = 0;
  std::size_t scanned_bytes_ = 0;
  SearchEnd end_;
};

}  // namespace

Result<> search_files(FileChannel& channel, const SearchRequest& request) {
  TRY_DO(end_with_client(channel.socket()));
  limit_memory();
  Search search{channel, request};
  return search.run();
}

}  // namespace atl::guest
