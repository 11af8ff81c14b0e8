// Credential bindings as the policy document has them: {ref, sourceRef, projection, cachePolicy}.
//
// Instead of a source a binding may have values of its own (`sealed`, made by
// CredentialSources::seal_own), and names of sources that need not be there yet (`lateSources`).
//
// A placeholder may be left out: then we make one, different in every sandbox, as long as the value
// where that is known. `env` names a variable of the sandbox that holds it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fields.h"
#include "egress/binding.h"
#include "store/room.h"

namespace atl::control {

inline constexpr std::size_t kMaxBindings = 64;
inline constexpr std::size_t kMaxProjected = 32;  // headers, placeholders, keys of one binding
inline constexpr std::size_t kMaxTemplateBytes = 4096;
inline constexpr std::size_t kMaxRefBytes = 128;
inline constexpr std::size_t kMaxLateSources = 32;
inline constexpr std::int64_t kMaxCacheSeconds = 24LL * 3600;

struct BindingDocument {
  // What the proxy need not know of a placeholder; one for each of the projection.
  struct Extra {
    std::string env;     // variable that holds it; empty: none
    std::string prefix;  // of one that we make
    bool operator==(const Extra&) const = default;
  };
  egress::Binding binding;  // a placeholder that is still to be made is empty
  std::vector<Extra> extras;
  bool operator==(const BindingDocument&) const = default;
};

// "credentialBindings" of the document that `fields` reads.
Result<std::vector<BindingDocument>> read_bindings(const Fields& fields);
Json write_bindings(const std::vector<BindingDocument>& bindings);
std::string_view projection_name(egress::ProjectionKind kind);  // "http_headers"

// How long the value of a template will be, if somebody knows.
using LengthOf = std::function<std::optional<std::size_t>(const egress::Binding& binding,
                                                          std::string_view value_template)>;
// Makes the placeholders that are missing.
void complete_placeholders(std::vector<BindingDocument>& bindings, const LengthOf& length_of);
// At least 128 random bits after the prefix, [A-Za-z0-9] only.
std::string make_placeholder(std::string_view prefix, std::size_t wanted_bytes);
// Variables of a sandbox with these bindings.
store::StringMap placeholder_environment(const std::vector<BindingDocument>& bindings);

}  // namespace atl::control
