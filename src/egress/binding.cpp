#include "egress/binding.h"

#include <cstring>

namespace atl::egress {
namespace {

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace

Material::~Material() {
  for (Header& header : headers) {
    wipe(header.value);
  }
  for (Placeholder& placeholder : placeholders) {
    wipe(placeholder.value);
  }
  for (std::string* secret :
       {&username, &password, &key_pem, &ssh_private_key_pem, &ssh_passphrase}) {
    wipe(*secret);
  }
}

}  // namespace atl::egress
