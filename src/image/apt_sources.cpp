#include "image/apt_sources.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "base/fd.h"
#include "base/strings.h"

namespace atl::image {
namespace {

constexpr std::size_t kMaxSourceFiles = 256;
constexpr std::string_view kKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  std::string word;
  for (const char byte : text) {
    if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
      if (!word.empty()) {
        found.push_back(std::move(word));
        word.clear();
      }
    } else {
      word += byte;
    }
  }
  if (!word.empty()) {
    found.push_back(std::move(word));
  }
  return found;
}

// One entry as written, before we decide whether it is Debian's.
struct Entry {
  bool enabled = true;
  std::vector<std::string> types;
  std::vector<std::string> uris;
  std::vector<std::string> suites;
  std::vector<std::string> components;
  std::string signed_by;
};

bool has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::ranges::find(list, wanted) != list.end();
}

bool is_suite_of(std::string_view candidate, std::string_view suite) {
  return candidate == suite || candidate == concat(suite, "-updates") ||
         candidate == concat(suite, "-security");
}

void append_debian(std::vector<AptSource>& sources, const Entry& entry, std::string_view suite) {
  const bool foreign_key =
      !entry.signed_by.empty() && entry.signed_by.find("debian-archive") == std::string::npos;
  if (!entry.enabled || foreign_key || !has(entry.types, "deb") || !has(entry.components, "main")) {
    return;
  }
  std::vector<std::string> suites;
  for (const std::string& candidate : entry.suites) {
    if (is_suite_of(candidate, suite)) {
      suites.push_back(candidate);
    }
  }
  if (suites.empty()) {
    return;
  }
  for (const std::string& uri : entry.uris) {
    if (uri.starts_with("http://") || uri.starts_with("https://")) {
      sources.push_back({.uri = uri, .suites = suites});
    }
  }
}

void set_field(Entry& entry, std::string_view name, std::string_view value) {
  if (equals_ignore_case(name, "types")) {
    entry.types = words(value);
  } else if (equals_ignore_case(name, "uris")) {
    entry.uris = words(value);
  } else if (equals_ignore_case(name, "suites")) {
    entry.suites = words(value);
  } else if (equals_ignore_case(name, "components")) {
    entry.components = words(value);
  } else if (equals_ignore_case(name, "signed-by")) {
    entry.signed_by = value;
  } else if (equals_ignore_case(name, "enabled")) {
    const std::string answer = to_lower(trim(value));
    entry.enabled = answer != "no" && answer != "false" && answer != "0";
  }
}

// apt reads sources.list first, then the parts in the order of their names.
std::vector<std::string> source_files() {
  std::vector<std::string> files;
  std::error_code ignored;
  const std::filesystem::directory_iterator parts{"/etc/apt/sources.list.d", ignored};
  for (const auto& part : parts) {
    const std::string path = part.path().string();
    if ((path.ends_with(".list") || path.ends_with(".sources")) && files.size() < kMaxSourceFiles) {
      files.push_back(path);
    }
  }
  std::ranges::sort(files);
  files.insert(files.begin(), "/etc/apt/sources.list");
  return files;
}

}  // namespace

std::vector<AptSource> parse_one_line_sources(std::string_view text, std::string_view suite) {
  std::vector<AptSource> sources;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    Entry entry;
    const auto open = line.find('[');
    const auto close = line.find(']');
    std::string rest{line};
    if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
      for (const std::string& option : words(line.substr(open + 1, close - open - 1))) {
        if (option.starts_with("signed-by=")) {
          entry.signed_by = option.substr(10);
        }
      }
      rest = concat(line.substr(0, open), " ", line.substr(close + 1));
    }
    const std::vector<std::string> fields = words(rest);
    if (fields.size() < 4) {
      continue;
    }
    entry.types = {fields[0]};
    entry.uris = {fields[1]};
    entry.suites = {fields[2]};
    entry.components.assign(fields.begin() + 3, fields.end());
    append_debian(sources, entry, suite);
  }
  return sources;
}

std::vector<AptSource> parse_deb822_sources(std::string_view text, std::string_view suite) {
  std::vector<AptSource> sources;
  Entry entry;
  std::string name;
  std::string value;
  const auto end_field = [&] {
    set_field(entry, name, value);
    name.clear();
    value.clear();
  };
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with('#')) {
      continue;
    }
    if (trim(line).empty()) {
      end_field();
      append_debian(sources, entry, suite);
      entry = {};
    } else if (line[0] == ' ' || line[0] == '\t') {
      value.append(" ").append(line);
    } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
      end_field();
      name = line.substr(0, colon);
      value = line.substr(colon + 1);
    }
  }
  end_field();
  append_debian(sources, entry, suite);
  return sources;
}

std::vector<AptSource> host_debian_sources(std::string_view suite) {
  std::vector<AptSource> sources;
  bool complete = false;
  for (const std::string& path : source_files()) {
    const auto text = read_file(path);
    if (!text) {
      continue;
    }
    for (AptSource& source : path.ends_with(".sources") ? parse_deb822_sources(*text, suite)
                                                        : parse_one_line_sources(*text, suite)) {
      complete = complete || has(source.suites, suite);
      if (std::ranges::find(sources, source) == sources.end()) {
        sources.push_back(std::move(source));
      }
    }
  }
  if (complete) {
    return sources;
  }
  return {{.uri = "http://deb.debian.org/debian",
           .suites = {std::string{suite}, concat(suite, "-updates")}},
          {.uri = "http://deb.debian.org/debian-security", .suites = {concat(suite, "-security")}}};
}

std::string format_sources(const std::vector<AptSource>& sources) {
  std::string text;
  for (const AptSource& source : sources) {
    text += concat(text.empty() ? "" : "\n", "Types: deb\nURIs: ", source.uri, "\nSuites:");
    for (const std::string& suite : source.suites) {
      text += concat(" ", suite);
    }
    text += concat("\nComponents: main\nSigned-By: ", kKeyring, "\n");
  }
  return text;
}

std::vector<AptSource> without_credentials(std::vector<AptSource> sources) {
  for (AptSource& source : sources) {
    const auto authority = source.uri.find("://") + 3;
    const auto end = source.uri.find('/', authority);
    const auto at = source.uri.substr(0, end).rfind('@');
    if (at != std::string::npos && at >= authority) {
      source.uri.erase(authority, at + 1 - authority);
    }
  }
  return sources;
}

}  // namespace atl::image
