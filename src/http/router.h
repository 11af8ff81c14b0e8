// Method and path pattern to handler. Patterns are literal segments and {names}; a name matches
// one non-empty segment, percent-decoded. Literal segments win over names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace atl::http {

using PathParameters = std::map<std::string, std::string, std::less<>>;
using RouteHandler = std::function<Task<>(Exchange&, const PathParameters&)>;

class Router {
 public:
  void add(std::string_view method, std::string_view pattern, RouteHandler handler);

  struct Match {
    const RouteHandler* handler = nullptr;  // nullptr: no such route
    PathParameters parameters;
    std::string_view pattern;     // for logs and metrics labels
    std::string allowed_methods;  // set when the path exists with other methods (405)
  };
  Match match(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    std::vector<std::string> segments;
    RouteHandler handler;
  };
  std::vector<Route> routes_;
};

}  // namespace atl::http
