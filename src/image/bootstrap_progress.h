// Reads the chatter of mmdebstrap and apt and says how far the bootstrap is.
//
// Pure: lines in, (step, fraction) out. The fractions of the steps come from a measured run; within
// the long steps we count packages against the number apt announces.
#pragma once

#include <string>
#include <string_view>

namespace atl::image {

class BootstrapProgress {
 public:
  // True when the line changed what `step` or `fraction` say.
  bool on_line(std::string_view line);
  const std::string& step() const { return step_; }
  double fraction() const { return fraction_; }

 private:
  bool enter(std::string_view step, double begin, double end, std::string_view counted,
             unsigned total);
  bool count();

  std::string step_ = "preparing";
  double fraction_ = 0;
  double begin_ = 0;
  double end_ = 0;
  std::string counted_;  // the first word of the lines that mean one more package
  unsigned seen_ = 0;
  unsigned total_ = 0;
  unsigned essential_ = 0;  // packages apt announced in the download step
};

}  // namespace atl::image
