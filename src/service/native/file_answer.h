// Answering a request with the content of a file: all of it, a range, or only its head, and all of
// it conditional, as RFC 9110 has it.
//
// Contents pass through in pieces: one buffer per transfer, whatever the size. What is decided from
// a first look (conditions, where a range lies) is checked against the file that is then sent.
#pragma once

#include <functional>
#include <string>

#include "control/files.h"
#include "http/server.h"

namespace atl::service::native {

struct FileAnswer {
  std::string path;  // absolute, or as the guest takes it
  std::string user;
  http::Headers headers;  // besides those that tell about the file
  // Answers that the range cannot be satisfied; Content-Range is added.
  std::function<http::Response(const Error&)> refuse;
};
Task<> answer_with_file(http::Exchange& exchange, control::Files& files, FileAnswer answer);

}  // namespace atl::service::native
