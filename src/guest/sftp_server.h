// SFTP inside the sandbox: blocking code in a process of its own, which already is the user.
//
// The gateway on the host passes bytes and understands none of them; what a file operation may do
// is decided by the kernel, here. Version 3 with the extensions that OpenSSH's client uses.
#pragma once

#include <dirent.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/fd.h"
#include "guest/sftp_packet.h"

namespace atl::guest::sftp {

class Server {
 public:
  // One packet without its length; the answer, with. Empty: none is due.
  std::string answer(std::string_view packet);

 private:
  struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  struct OpenFile {
    Fd fd;
    bool append = false;
  };
  using Directory = std::unique_ptr<DIR, CloseDirectory>;
  using Open = std::variant<OpenFile, Directory>;

  std::string dispatch(Type type, std::uint32_t id, PacketReader& in);
  std::string extended(std::uint32_t id, PacketReader& in);
  std::string open(std::uint32_t id, PacketReader& in);
  std::string close(std::uint32_t id, PacketReader& in);
  std::string read(std::uint32_t id, PacketReader& in);
  std::string write(std::uint32_t id, PacketReader& in);
  std::string stat(std::uint32_t id, PacketReader& in, bool follow);
  std::string fstat(std::uint32_t id, PacketReader& in);
  std::string set_attributes(std::uint32_t id, PacketReader& in, bool follow);
  std::string fset_attributes(std::uint32_t id, PacketReader& in);
  std::string open_directory(std::uint32_t id, PacketReader& in);
  std::string read_directory(std::uint32_t id, PacketReader& in);
  std::string real_path(std::uint32_t id, std::string path);
  std::string expand_path(std::uint32_t id, PacketReader& in);
  std::string read_link(std::uint32_t id, PacketReader& in);
  std::string rename(std::uint32_t id, PacketReader& in, bool replace);
  std::string filesystem(std::uint32_t id, PacketReader& in, bool by_handle);
  std::string keep(std::uint32_t id, Open open);
  Open* find(std::string_view handle);
  OpenFile* find_file(std::string_view handle);

  std::map<std::string, Open, std::less<>> handles_;
  std::uint64_t next_handle_ = 0;
};

// Until the input ends. The exit status of the process.
int serve(int input, int output);

}  // namespace atl::guest::sftp
