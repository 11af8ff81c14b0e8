#include "image/bootstrap_progress.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::image {
namespace {

// "0 upgraded, 69 newly installed, ..." -> 69
unsigned announced_packages(std::string_view line) {
  const auto end = line.find(" newly installed");
  if (end == std::string_view::npos) {
    return 0;
  }
  const auto begin = line.rfind(' ', end - 1);
  if (begin == std::string_view::npos) {
    return 0;
  }
  return static_cast<unsigned>(std::min<std::uint64_t>(
      parse_u64(line.substr(begin + 1, end - begin - 1)).value_or(0), 100'000));
}

}  // namespace

bool BootstrapProgress::enter(std::string_view step, double begin, double end,
                              std::string_view counted, unsigned total) {
  step_ = step;
  begin_ = begin;
  end_ = end;
  fraction_ = begin;
  counted_ = counted;
  seen_ = 0;
  total_ = total;
  return true;
}

bool BootstrapProgress::count() {
  if (total_ == 0) {
    return false;
  }
  seen_ = std::min(seen_ + 1, total_);
  fraction_ = begin_ + (end_ - begin_) * seen_ / total_;
  return true;
}

bool BootstrapProgress::on_line(std::string_view line) {
  if (line.starts_with("I: ")) {
    const std::string_view phase = line.substr(3);
    if (phase.starts_with("running apt-get update")) {
      return enter("reading package lists", 0.01, 0.05, {}, 0);
    }
    if (phase.starts_with("downloading packages")) {
      return enter("downloading the base system", 0.05, 0.10, "Get:", 0);
    }
    if (phase.starts_with("extracting archives")) {
      return enter("unpacking the base system", 0.10, 0.15, {}, 0);
    }
    if (phase.starts_with("installing essential")) {
      return enter("installing the base system", 0.15, 0.25, "Setting up ", essential_);
    }
    if (phase.starts_with("installing remaining")) {
      return enter("downloading packages", 0.25, 0.40, "Get:", 0);
    }
    if (phase.starts_with("cleaning")) {
      return enter("cleaning up", 0.85, 0.85, {}, 0);
    }
    return false;
  }
  if (const unsigned announced = announced_packages(line); announced > 0) {
    total_ = announced;
    seen_ = 0;
    if (step_ == "downloading the base system") {
      essential_ = announced;
    }
    return false;
  }
  if (step_ == "downloading packages" && line.starts_with("Fetched ")) {
    // From here dpkg names each package twice: when it unpacks it and when it configures it.
    return enter("installing packages", 0.40, 0.85, {}, total_ * 2);
  }
  if (step_ == "installing packages") {
    return (line.starts_with("Unpacking ") || line.starts_with("Setting up ")) && count();
  }
  return !counted_.empty() && line.starts_with(counted_) && count();
}

}  // namespace atl::image
