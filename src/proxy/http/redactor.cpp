#include "proxy/http/redactor.h"

#include <string.h>

#include <algorithm>

#include "base/strings.h"
#include "egress/placeholders.h"

namespace atl::proxy::http {
namespace {

constexpr std::size_t kLeastSecretBytes = 6;  // shorter ones would redact ordinary text

// The part of base64 that does not depend on what stands before and after.
std::string inner_base64(std::string_view value, std::size_t offset) {
  const std::string padded = std::string(offset, 'x') + std::string{value};
  const auto text = base64_encode(padded);
  const std::size_t begin = (offset * 8 + 5) / 6;
  const std::size_t end = (offset + value.size()) * 8 / 6;
  return begin < end ? text.substr(begin, end - begin) : std::string{};
}

void add_spellings(std::vector<std::string>& all, std::string_view value) {
  if (value.size() < kLeastSecretBytes) {
    return;
  }
  all.emplace_back(value);
  all.push_back(egress::escape_value(value, egress::ValueEscape::kPercent));
  all.push_back(egress::escape_value(value, egress::ValueEscape::kJson));
  for (std::size_t offset = 0; offset < 3; ++offset) {
    auto text = inner_base64(value, offset);
    if (text.size() >= kLeastSecretBytes) {
      std::string for_urls = text;
      std::ranges::replace(for_urls, '+', '-');
      std::ranges::replace(for_urls, '/', '_');
      all.push_back(std::move(text));
      all.push_back(std::move(for_urls));
    }
  }
}

std::vector<std::string> spellings_of(const std::vector<egress::MaterialPtr>& materials) {
  std::vector<std::string> all;
  for (const auto& material : materials) {
    for (const auto& header : material->headers) {
      add_spellings(all, header.value);
      const auto blank = header.value.find(' ');  // "Bearer x": x alone, too
      if (blank != std::string::npos) {
        const auto token = trim(std::string_view{header.value}.substr(blank + 1));
        add_spellings(all, token);
        if (equals_ignore_case(header.value.substr(0, blank), "basic")) {
          const auto pair = base64_decode(token).value_or("");
          add_spellings(all, pair.substr(std::min(pair.size(), pair.find(':') + 1)));
        }
      }
    }
    for (const auto& one : material->placeholders) {
      add_spellings(all, one.value);
    }
    add_spellings(all, material->password);
  }
  return all;
}

}  // namespace

Redactor::Redactor(std::vector<std::string> spellings) : spellings_(std::move(spellings)) {
  std::erase(spellings_, "");
  std::ranges::sort(spellings_, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const auto& one : spellings_) {
    begins_[static_cast<unsigned char>(one[0])] = true;
  }
}

Redactor::~Redactor() {
  for (auto& one : spellings_) {
    ::explicit_bzero(one.data(), one.size());
  }
}

void Redactor::redact_fields(const std::vector<egress::MaterialPtr>& materials, Headers& fields) {
  const Redactor redactor{spellings_of(materials)};
  Headers masked;
  for (const auto& [name, value] : fields.lines()) {
    std::string text = value;
    redactor.mask(text, true);
    masked.add(name, text);
  }
  fields = std::move(masked);
}

Result<std::unique_ptr<Redactor>> Redactor::make(const std::vector<egress::MaterialPtr>& materials,
                                                 ResponseHead& head) {
  const auto encoding = head.headers.get("content-encoding");
  if (head.has_body && !encoding.empty() && !equals_ignore_case(trim(encoding), "identity")) {
    return fail(Code::kUnavailable,
                "the server compressed its answer, which must be redacted, without being asked to");
  }
  redact_fields(materials, head.headers);
  return std::make_unique<Redactor>(spellings_of(materials));
}

// From left to right, the longest first. Stops where the text ends before it is decided whether a
// secret begins there, unless it is the `last`; says how far it got.
std::size_t Redactor::mask(std::string& text, bool last) const {
  std::size_t at = 0;
  while (at < text.size()) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto rest = std::string_view{text}.substr(at);
    std::size_t found = 0;
    for (const auto& one : spellings_) {
      if (!last && one.size() > rest.size() && one.starts_with(rest)) {
        return at;
      }
      if (rest.starts_with(one)) {
        found = one.size();
        break;
      }
    }
    text.replace(at, found, found, '*');
    at += std::max<std::size_t>(found, 1);
  }
  return at;
}

Result<std::string> Redactor::feed(std::string_view bytes) {
  std::string text = std::exchange(waiting_, {});
  text += bytes;
  const auto done = mask(text, false);
  waiting_ = text.substr(done);
  text.resize(done);
  return text;
}

Result<std::string> Redactor::finish() {
  std::string text = std::exchange(waiting_, {});
  mask(text, true);
  return text;
}

}  // namespace atl::proxy::http
