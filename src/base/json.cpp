#include "base/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace atl {
namespace {

namespace bj = boost::json;

// Receives the parser's events and builds the tree. Returns false to stop with an error code.
class Builder {
 public:
  constexpr static std::size_t max_object_size = 1 << 20;
  constexpr static std::size_t max_array_size = 1 << 22;
  constexpr static std::size_t max_key_size = 1 << 20;
  constexpr static std::size_t max_string_size = 1 << 28;

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_object_begin(bj::error_code&) { return open(Json::object()); }
  bool on_array_begin(bj::error_code&) { return open(Json::array()); }
  bool on_object_end(std::size_t, bj::error_code& error) {
    if (has_duplicate(*stack_.back().as_object())) {
      error = bj::error::syntax;
      return false;
    }
    return close();
  }
  bool on_array_end(std::size_t, bj::error_code&) { return close(); }
  bool on_string_part(bj::string_view part, std::size_t, bj::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(bj::string_view part, std::size_t, bj::error_code&) {
    text_.append(part.data(), part.size());
    return value(Json{std::exchange(text_, {})});
  }
  bool on_key_part(bj::string_view part, std::size_t, bj::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(bj::string_view part, std::size_t, bj::error_code&) {
    text_.append(part.data(), part.size());
    stack_.back().as_object()->emplace_back(std::exchange(text_, {}), Json{});
    return true;
  }
  bool on_number_part(bj::string_view part, bj::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(std::int64_t number, bj::string_view, bj::error_code&) {
    text_.clear();
    return value(Json{number});
  }
  bool on_uint64(std::uint64_t number, bj::string_view, bj::error_code&) {
    text_.clear();
    return value(Json{static_cast<double>(number)});
  }
  // Read again from the text: Boost's own result may be off in its last bits, and infinite.
  bool on_double(double about, bj::string_view part, bj::error_code& error) {
    text_.append(part.data(), part.size());
    const std::string digits = std::exchange(text_, {});
    double number = 0;  // stays when it is too small, or too large
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc{} && std::abs(about) > 1) {
      error = bj::error::exponent_overflow;
      return false;
    }
    return value(Json{number == 0 ? 0.0 : number});  // there is no negative zero here
  }
  bool on_bool(bool flag, bj::error_code&) { return value(Json{flag}); }
  bool on_null(bj::error_code&) { return value(Json{}); }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }

  Json take() { return std::move(root_); }
  const std::string& duplicate() const { return duplicate_; }

 private:
  // Sorted, because a hostile object has very many members.
  bool has_duplicate(const Json::Object& members) {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, ignored] : members) {
      keys.emplace_back(key);
    }
    std::ranges::sort(keys);
    const auto found = std::ranges::adjacent_find(keys);
    if (found == keys.end()) {
      return false;
    }
    duplicate_ = *found;
    return true;
  }
  bool value(Json json) {
    if (stack_.empty()) {
      root_ = std::move(json);
    } else if (auto* array = stack_.back().as_array()) {
      array->push_back(std::move(json));
    } else {
      stack_.back().as_object()->back().second = std::move(json);
    }
    return true;
  }
  bool open(Json container) {
    stack_.push_back(std::move(container));
    return true;
  }
  bool close() {
    Json done = std::move(stack_.back());
    stack_.pop_back();
    return value(std::move(done));
  }

  std::vector<Json> stack_;
  std::string text_;
  std::string duplicate_;
  Json root_;
};

}  // namespace

Result<Json> Json::parse(std::string_view text) {
  bj::parse_options options;
  options.max_depth = 64;
  bj::basic_parser<Builder> parser{options};
  bj::error_code error;
  const auto used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size() &&
      text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) {
    error = bj::error::extra_data;
  }
  if (error) {
    const auto& duplicate = parser.handler().duplicate();
    const std::string why =
        duplicate.empty() ? error.message() : concat("duplicate key \"", duplicate, "\"");
    return fail(Code::kInvalidArgument, concat("not valid JSON near byte ", used, ": ", why));
  }
  return parser.handler().take();
}

std::optional<double> Json::as_number() const {
  if (const auto* integer = as_integer()) {
    return static_cast<double>(*integer);
  }
  if (const auto* real = std::get_if<double>(&value_)) {
    return *real;
  }
  return std::nullopt;
}

const Json* Json::find(std::string_view key) const {
  if (const auto* members = as_object()) {
    for (const auto& [name, value] : *members) {
      if (name == key) {
        return value.is_null() ? nullptr : &value;
      }
    }
  }
  return nullptr;
}

Json& Json::set(std::string_view key, Json value) {
  auto* members = as_object();
  CHECK(members != nullptr);
  for (auto& [name, existing] : *members) {
    if (name == key) {
      existing = std::move(value);
      return *this;
    }
  }
  members->emplace_back(std::string{key}, std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  auto* elements = as_array();
  CHECK(elements != nullptr);
  elements->push_back(std::move(value));
  return *this;
}

// `indent` < 0: compact; else the depth of the line being written.
void Json::write(std::string& out, int indent) const {
  const auto new_line = [&](int depth) {
    if (depth >= 0) {
      out += '\n';
      out.append(static_cast<std::size_t>(depth) * 2, ' ');
    }
  };
  const int inner = indent < 0 ? indent : indent + 1;
  if (const auto* flag = as_bool()) {
    out += *flag ? "true" : "false";
  } else if (const auto* integer = as_integer()) {
    append_piece(out, *integer);
  } else if (const auto* text = as_string()) {
    append_json_string(out, *text);
  } else if (const auto* elements = as_array()) {
    out += '[';
    for (std::size_t i = 0; i < elements->size(); ++i) {
      out += i == 0 ? "" : ",";
      new_line(inner);
      (*elements)[i].write(out, inner);
    }
    if (!elements->empty()) {
      new_line(indent);
    }
    out += ']';
  } else if (const auto* members = as_object()) {
    out += '{';
    for (std::size_t i = 0; i < members->size(); ++i) {
      out += i == 0 ? "" : ",";
      new_line(inner);
      append_json_string(out, (*members)[i].first);
      out += indent < 0 ? ":" : ": ";
      (*members)[i].second.write(out, inner);
    }
    if (!members->empty()) {
      new_line(indent);
    }
    out += '}';
  } else if (const auto* real = std::get_if<double>(&value_); real && std::isfinite(*real)) {
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, *real).ptr;
    out.append(buffer, end);
  } else {
    out += "null";
  }
}

std::string Json::dump() const {
  std::string out;
  write(out, -1);
  return out;
}

std::string Json::dump_pretty() const {
  std::string out;
  write(out, 0);
  return out;
}

}  // namespace atl
