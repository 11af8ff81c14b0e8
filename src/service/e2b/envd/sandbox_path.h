// Which path of a sandbox a request means.
//
// An absolute path is itself, "~" and "~/x" are in the home directory of the user, and so is
// whatever is relative: only the sandbox knows where that is, so the guest is asked for "~/x".
#pragma once

#include <string>
#include <string_view>

namespace atl::service::e2b::envd {

// "/a//b/../c/" -> "/a/c", as far as names alone tell. REQUIRES: absolute.
std::string clean_path(std::string_view path);

// For the guest: absolute and clean, or beginning with ~. An empty path is `directory`, the default
// of the template.
std::string guest_path(std::string_view path, std::string_view directory);
// Of a command; the directories that our own builtin templates have do not count: users of E2B
// expect their home directory there.
std::string process_directory(std::string_view cwd, std::string_view template_directory);

}  // namespace atl::service::e2b::envd
