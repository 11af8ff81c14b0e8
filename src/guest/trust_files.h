// Whole files of the sandbox's system, read with a bound and replaced in one step; blocks of ours
// in files that belong to somebody else.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atl::guest {

enum class PlaceKind : std::uint8_t { kMissing, kFile, kOther };  // other: a symlink, a device …

struct Place {
  PlaceKind kind = PlaceKind::kMissing;
  std::string content;  // of a file
};
Result<Place> read_place(const std::string& path);
bool is_directory(const std::string& path);

// Keeps mode and owner of the file that is there. Does nothing when the content is the same.
// Fails when something else than a file is there. Makes no directories.
Result<> replace_file(const std::string& path, std::string_view content, unsigned mode);
Result<> remove_file(const std::string& path);  // fine when it is not there
// A symlink at `path`, replacing one that is there; anything else there stays.
Result<> replace_link(const std::string& path, const std::string& target);

// Text between two lines of ours, however often it is there.
std::string without_block(std::string_view text, std::string_view begin, std::string_view end);
std::string without_text(std::string text, std::string_view piece);

}  // namespace atl::guest
