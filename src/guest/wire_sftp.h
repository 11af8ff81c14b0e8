// SFTP in the guest protocol: a spawn whose program is the agent itself.
#pragma once

#include <string_view>

namespace atl::guest {

// As argv[0], alone: SFTP is served on the process's standard input and output, with the user's
// rights and in its directory. There is no such file.
inline constexpr std::string_view kSftpProgram = "atoll:sftp";

}  // namespace atl::guest
