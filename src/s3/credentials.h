// Who signs: the id is known to the server of the bucket, the rest to nobody.
#pragma once

#include <string>

#include "secrets/plaintext.h"

namespace atl::s3 {

struct Credentials {
  secrets::Plaintext access_key;  // an id, but nobody's business either
  secrets::Plaintext secret_key;
  secrets::Plaintext session_token;  // empty: none
};

}  // namespace atl::s3
