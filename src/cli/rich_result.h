// What code evaluated to (a bundle of the same thing in several MIME types), for a terminal.
//
// Text is shown; a picture is written to a file when the person gave a directory, and mentioned
// with its size otherwise. The bundle comes from a sandbox: names of files are ours, and headers of
// pictures are read with care.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace atl::cli {

struct PictureSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};
// From the header of a PNG or JPEG.
std::optional<PictureSize> picture_size(std::string_view bytes);

class ResultPrinter {
 public:
  // `directory` empty: pictures are only mentioned.
  explicit ResultPrinter(std::string directory) : directory_(std::move(directory)) {}
  // Lines to show, each with its newline.
  Result<std::string> render(const Json& bundle);

 private:
  Result<std::string> picture(std::string_view type, const std::string& data);

  std::string directory_;
  int pictures_ = 0;
};

}  // namespace atl::cli
