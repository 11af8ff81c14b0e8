#include "daemon/arguments.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::daemon {

Result<Arguments> Arguments::parse(std::span<char* const> words,
                                   const std::vector<std::string_view>& known_names,
                                   const std::vector<std::string_view>& repeatable_names) {
  const auto is_in = [](const std::vector<std::string_view>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (!word.starts_with("--")) {
      return fail(Code::kInvalidArgument, concat("unexpected argument: ", word));
    }
    word.remove_prefix(2);
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const bool repeatable = is_in(repeatable_names, name);
    if (!repeatable && !is_in(known_names, name)) {
      return fail(Code::kInvalidArgument, concat("unknown option: --", name));
    }
    std::string value;
    if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      return fail(Code::kInvalidArgument, concat("--", name, " needs a value"));
    }
    if (value.empty()) {
      return fail(Code::kInvalidArgument, concat("--", name, " needs a value that is not empty"));
    }
    auto& values = arguments.values_[std::string{name}];
    if (!values.empty() && !repeatable) {
      return fail(Code::kInvalidArgument, concat("--", name, " is given twice"));
    }
    values.push_back(std::move(value));
  }
  return arguments;
}

std::string Arguments::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string{otherwise} : found->second.front();
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<std::uint64_t> Arguments::number(std::string_view name, std::uint64_t otherwise,
                                        std::uint64_t most) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    return otherwise;
  }
  const auto value = parse_u64(found->second.front());
  if (!value || *value > most) {
    return fail(Code::kInvalidArgument, concat("--", name, " is not a number from 0 to ", most));
  }
  return *value;
}

}  // namespace atl::daemon
