// Private to this room: one call to the bucket's server, signed, with a deadline, tried again.
//
// Connections are kept for a while and never lead anywhere but to an address that the policy has
// judged: a client is made for one address and dials only that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "http/client.h"
#include "io/address.h"
#include "s3/room.h"
#include "s3/signature.h"

namespace atl::s3 {

struct Call {
  std::string method;
  std::string key;  // empty: the bucket itself
  Query query;
  http::Headers headers;
  std::string body;
  bool streamed = false;  // leave the body of a success to be read
};

struct Reply {
  int status = 0;
  http::Headers headers;
  std::string body;
  // When streamed. The client is kept with its response and parked when that has ended.
  std::unique_ptr<http::Client> client;
  std::unique_ptr<http::ClientResponse> response;
};

class Caller {
 public:
  Caller(Surroundings& surroundings, Endpoint endpoint, Credentials credentials,
         const std::string& team_id)
      : surroundings_(surroundings),
        share_(surroundings.teams[team_id]),
        endpoint_(std::move(endpoint)),
        credentials_(std::move(credentials)) {}

  // A success (2xx); everything else is an error. The call must outlive the task.
  Task<Reply> run(const Call& call);
  // One attempt only.
  Task<Reply> run_once(const Call& call);
  // For the next call.
  void park(std::unique_ptr<http::Client> client);
  Surroundings& surroundings() { return surroundings_; }
  TeamShare& share() { return share_; }
  // As x-amz-copy-source wants it.
  std::string copy_source(std::string_view key) const {
    return encode_path(concat("/", endpoint_.bucket, "/", key));
  }

 private:
  struct Idle {
    std::unique_ptr<http::Client> client;
    Instant since;
  };
  Task<std::unique_ptr<http::Client>> take_client();
  Task<std::vector<io::IpAddress>> look_up();
  Task<std::string> digest_of(const Call& call);
  Task<Reply> attempt(const Call& call);

  Surroundings& surroundings_;
  TeamShare& share_;
  Endpoint endpoint_;
  Credentials credentials_;
  std::vector<Idle> idle_;
};

}  // namespace atl::s3
