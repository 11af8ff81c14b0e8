// The files of one place, whatever keeps them: a sandbox, a volume on our disk, a bucket.
//
// The file routes know only this. What a place cannot do fails with kUnimplemented. Paths are
// absolute within the place; whose rights count is in each request, and a place that has no users
// takes no notice of it. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "control/guest_client.h"

namespace atl::control {

// Which place of which team.
struct PlaceRef {
  std::string team_id;
  std::string id;
};

// What a request means that does not say it.
struct FileDefaults {
  std::string user;
  std::string cwd;
  bool fixed_user = false;  // nobody may choose another one

  std::string choose_user(const std::optional<std::string>& asked) const {
    return fixed_user || !asked || asked->empty() ? user : *asked;
  }
};

class Files {
 public:
  virtual ~Files() = default;

  virtual Task<guest::FileInfo> stat(guest::PathRequest request) = 0;
  virtual Task<std::unique_ptr<DirectoryReader>> read_directory(guest::PathRequest request) = 0;
  virtual Task<std::unique_ptr<FileReader>> read_file(guest::ReadFileRequest request) = 0;
  virtual Task<std::unique_ptr<FileWriter>> write_file(guest::WriteFileRequest request) = 0;
  virtual Task<> make_directory(guest::MakeDirectoryRequest request) = 0;
  virtual Task<> move(guest::MoveRequest request) = 0;
  virtual Task<> remove(guest::RemoveRequest request) = 0;
  virtual Task<> change_mode(guest::ChangeModeRequest request) = 0;
  virtual Task<std::unique_ptr<FileWatch>> watch(guest::WatchRequest request) = 0;
  // After each change and before it is acknowledged: what was changed at the path is durable, with
  // `tree` also below it. A place that promises no such thing does nothing.
  virtual Task<> sync(std::string path, bool tree) = 0;
  // For what only a guest can do: archives and searches. Null: this place has none.
  virtual const GuestClient* guest() const { return nullptr; }
};

// Where the routes find places by their id.
class FilePlaces {
 public:
  virtual ~FilePlaces() = default;
  // Of a place that does not exist: anything; open() will say it.
  virtual FileDefaults defaults(const PlaceRef& ref) const = 0;
  // The files can be used as long as the answer lives.
  virtual Task<std::unique_ptr<Files>> open(PlaceRef ref) = 0;
  // How much an archive may become when it is unpacked.
  virtual Result<std::uint64_t> room_bytes(const PlaceRef& ref) const = 0;
};

// Files over a guest.
class GuestFiles : public Files {
 public:
  explicit GuestFiles(GuestClient client) : client_(std::move(client)) {}

  Task<guest::FileInfo> stat(guest::PathRequest request) override {
    return client_.stat(std::move(request));
  }
  Task<std::unique_ptr<DirectoryReader>> read_directory(guest::PathRequest request) override {
    return client_.read_directory(std::move(request));
  }
  Task<std::unique_ptr<FileReader>> read_file(guest::ReadFileRequest request) override {
    return client_.read_file(std::move(request));
  }
  Task<std::unique_ptr<FileWriter>> write_file(guest::WriteFileRequest request) override {
    return client_.write_file(std::move(request));
  }
  Task<> make_directory(guest::MakeDirectoryRequest request) override {
    return client_.make_directory(std::move(request));
  }
  Task<> move(guest::MoveRequest request) override { return client_.move(std::move(request)); }
  Task<> remove(guest::RemoveRequest request) override {
    return client_.remove(std::move(request));
  }
  Task<> change_mode(guest::ChangeModeRequest request) override {
    return client_.change_mode(std::move(request));
  }
  Task<std::unique_ptr<FileWatch>> watch(guest::WatchRequest request) override {
    return client_.watch(std::move(request));
  }
  // What a sandbox writes is durable when it is paused or snapshotted.
  Task<> sync(std::string, bool) override { co_return ok(); }
  const GuestClient* guest() const override { return &client_; }

 protected:
  const GuestClient client_;
};

}  // namespace atl::control
