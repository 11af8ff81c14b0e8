// From a recipe to a directory tree: mmdebstrap installs the packages, then we finish the tree.
//
// The work directory is private to root (the tree has setuid programs in it). mmdebstrap runs in
// its own mount namespace, so a build that is killed leaves no mount behind. Nothing of the host
// goes into the tree but the addresses of its Debian mirrors, without credentials.
#pragma once

#include <string>

#include "base/error.h"
#include "image/recipe.h"
#include "image/room.h"

namespace atl::image {

// Makes `work_directory`/tree, which must not exist. Reports fractions 0..0.87.
Result<> bootstrap(const Recipe& recipe, const std::string& work_directory,
                   const Progress& progress);

// The part of it that needs no network and no packages: our files, the clean-up.
Result<> finish_tree(const Recipe& recipe, int tree_fd);

}  // namespace atl::image
