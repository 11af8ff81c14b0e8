// Text with {{ .key }} where a value of a credential goes. Nothing else is a template: no pipes, no
// conditions. A key that is missing is an error, never an empty text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "secrets/plaintext.h"

namespace atl::control {

// The values of a credential source by their key.
using SecretValues = std::map<std::string, secrets::Plaintext, std::less<>>;

class ValueTemplate {
 public:
  static Result<ValueTemplate> parse(std::string_view text);

  // kFailedPrecondition when a key is missing. The caller wipes what it got.
  Result<std::string> render(const SecretValues& values) const;

 private:
  struct Piece {
    bool is_key = false;
    std::string text;
  };
  std::vector<Piece> pieces_;
};

}  // namespace atl::control
