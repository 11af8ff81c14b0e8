// Takes the values of credentials out of what a server answers.
//
// A safety net for servers that echo what they get, not a boundary. Exact occurrences are replaced
// by as many asterisks, so lengths stay as announced: as they are, percent-encoded, escaped for
// JSON, and in base64 at any alignment. Bytes wait only while they could be the beginning of one.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "egress/binding.h"
#include "proxy/http/body_filter.h"
#include "proxy/http/exchange.h"

namespace atl::proxy::http {

class Redactor final : public BodyFilter {
 public:
  // Redacts the head. kUnavailable when the body is encoded although we asked for it plain.
  static Result<std::unique_ptr<Redactor>> make(const std::vector<egress::MaterialPtr>& materials,
                                                ResponseHead& head);
  static void redact_fields(const std::vector<egress::MaterialPtr>& materials, Headers& fields);

  explicit Redactor(std::vector<std::string> spellings);
  ~Redactor() override;
  Result<std::string> feed(std::string_view bytes) override;
  Result<std::string> finish() override;

 private:
  std::size_t mask(std::string& text, bool last) const;

  std::vector<std::string> spellings_;  // the longest first; secrets: wiped in the end
  std::array<bool, 256> begins_{};      // first bytes of them
  std::string waiting_;
};

}  // namespace atl::proxy::http
