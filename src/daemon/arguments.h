// Arguments of the form --name value or --name=value, checked against the names a command knows.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::daemon {

class Arguments {
 public:
  static Result<Arguments> parse(std::span<char* const> words,
                                 const std::vector<std::string_view>& known_names,
                                 const std::vector<std::string_view>& repeatable_names = {});

  bool has(std::string_view name) const { return values_.contains(name); }
  std::string text(std::string_view name, std::string_view otherwise = {}) const;
  // Each value of one that may be given several times.
  std::vector<std::string> texts(std::string_view name) const;
  Result<std::uint64_t> number(std::string_view name, std::uint64_t otherwise,
                               std::uint64_t most) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;  // at least one each
};

}  // namespace atl::daemon
