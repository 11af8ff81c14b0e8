// What a builtin template is made of. The recipe is data: its version is a hash over all of it, so
// any change gives a new cache file and a new layer, and nobody has to remember to bump a number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::image {

// A file we write into the tree after the packages are installed.
struct RecipeFile {
  std::string path;  // relative to the root of the tree
  std::string content;
  unsigned mode = 0644;
};

// A symbolic link we make, where programs expect something at another place than Debian has it.
struct RecipeLink {
  std::string path;  // relative to the root of the tree
  std::string target;
};

struct Recipe {
  std::string name;
  std::string suite;
  std::vector<std::string> packages;
  std::vector<std::string> dpkg_options;  // lines of the image's dpkg.cfg.d
  std::vector<RecipeFile> files;
  std::vector<RecipeLink> links;
  std::vector<std::string> emptied_directories;  // contents removed, directory kept
  std::vector<std::string> removed_files;
};

Recipe default_recipe();
// `default` with what data work in Python takes for granted.
Recipe code_interpreter_recipe();
// `default` with a screen: what programs that drive a desktop by its display take for granted.
Recipe desktop_recipe();
// All of them, `default` first.
std::vector<Recipe> builtin_recipes();
// The recipe of a builtin by name or alias.
Result<Recipe> find_recipe(std::string_view name);
// Twelve hexadecimal digits over everything above, the machine's architecture and the way we pack.
std::string recipe_version(const Recipe& recipe);

}  // namespace atl::image
