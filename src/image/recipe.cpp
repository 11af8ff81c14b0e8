#include "image/recipe.h"

#include <openssl/sha.h>
#include <sys/utsname.h>

#include "base/bytes.h"
#include "base/strings.h"

namespace atl::image {
namespace {

// Raise when the code changes what a build yields (users, archive format) without the data below
// changing.
constexpr std::uint32_t kBuilderRevision = 1;

std::string architecture() {
  utsname names{};
  ::uname(&names);
  return names.machine;
}

std::vector<RecipeFile> default_files() {
  return {
      {.path = "etc/hostname", .content = "sandbox\n"},
      {.path = "etc/hosts",
       .content = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"},
      // Empty: whoever runs the tree decides on names. An empty file makes lookups fail at once.
      {.path = "etc/resolv.conf", .content = ""},
      // Empty asks for one at first boot; two sandboxes never share one.
      {.path = "etc/machine-id", .content = ""},
      {.path = "etc/default/locale", .content = "LANG=C.UTF-8\n"},
      {.path = "etc/sudoers.d/user", .content = "user ALL=(ALL:ALL) NOPASSWD:ALL\n", .mode = 0440},
      // A sandbox is thrown away: pip may write where apt does.
      {.path = "etc/pip.conf",
       .content = "[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n"
                  "root-user-action = ignore\n"},
      {.path = "etc/npmrc", .content = "update-notifier=false\nfund=false\naudit=false\n"},
      // There is no init: a package must not try to start its service.
      {.path = "usr/sbin/policy-rc.d", .content = "#!/bin/sh\nexit 101\n", .mode = 0755},
  };
}

void add_packages(Recipe& recipe, std::initializer_list<std::string_view> packages) {
  recipe.packages.insert(recipe.packages.end(), packages.begin(), packages.end());
}

}  // namespace

Recipe default_recipe() {
  return Recipe{
      .name = "default",
      .suite = "bookworm",
      // libnss-myhostname: sudo resolves the host name, whatever the sandbox is called.
      .packages = {"bash", "ca-certificates", "curl", "git", "iproute2", "less",
                   "libnss-myhostname", "nodejs", "npm", "procps", "python-is-python3", "python3",
                   "python3-pip", "python3-venv", "sudo", "unzip", "xz-utils"},
      .dpkg_options = {"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
                       "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/lintian/*",
                       "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/man/*",
                       // What npm's dependencies bring for editors and debuggers: 8,000 files.
                       "path-exclude=/usr/share/nodejs/@types/*",
                       "path-exclude=/usr/share/nodejs/*.d.ts",
                       "path-exclude=/usr/share/nodejs/*.js.map",
                       "path-exclude=/usr/share/nodejs/*.md", "force-unsafe-io"},
      .files = default_files(),
      // Whoever runs the tree mounts its own /dev; device nodes have no place in a layer.
      .emptied_directories = {"dev", "tmp", "var/cache/ldconfig", "var/tmp"},
      .removed_files = {"etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/subuid-",
                        "etc/subgid-", "etc/.pwd.lock", "var/cache/debconf/config.dat-old",
                        "var/cache/debconf/templates.dat-old", "var/lib/dbus/machine-id",
                        "var/lib/dpkg/status-old"},
  };
}

Recipe code_interpreter_recipe() {
  Recipe recipe = default_recipe();
  recipe.name = "code-interpreter-v1";
  // esbuild turns TypeScript into JavaScript for the interpreter; fonts-dejavu-core is what
  // matplotlib draws with. Without a JDK, which would add 270 MB for the few.
  add_packages(recipe,
               {"esbuild", "fonts-dejavu-core", "ipython3", "python3-bs4", "python3-matplotlib",
                "python3-networkx", "python3-numpy", "python3-openpyxl", "python3-pandas",
                "python3-pil", "python3-plotly", "python3-requests", "python3-scipy",
                "python3-seaborn", "python3-sklearn", "python3-sympy", "r-base-core"});
  return recipe;
}

Recipe desktop_recipe() {
  Recipe recipe = default_recipe();
  recipe.name = "desktop";
  // Beside the desktop itself: dbus-x11 for startxfce4, libgtk-3-bin for gtk-launch, file and
  // xdg-utils for xdg-open, net-tools for netstat, x11-utils for xdpyinfo, x11-xserver-utils for
  // xrandr.
  add_packages(recipe, {"adwaita-icon-theme",
                        "chromium",
                        "dbus-x11",
                        "file",
                        "fonts-dejavu-core",
                        "libgtk-3-bin",
                        "mousepad",
                        "net-tools",
                        "novnc",
                        "scrot",
                        "thunar",
                        "websockify",
                        "x11-utils",
                        "x11-xserver-utils",
                        "x11vnc",
                        "xclip",
                        "xdg-utils",
                        "xdotool",
                        "xfce4-panel",
                        "xfce4-session",
                        "xfce4-settings",
                        "xfce4-terminal",
                        "xfconf",
                        "xfdesktop4",
                        "xfwm4",
                        "xvfb"});
  // Chromium's own sandbox needs namespaces that ours does not give: the sandbox is around it.
  recipe.files.push_back(
      {.path = "etc/chromium.d/sandbox",
       .content = "export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox --test-type "
                  "--no-first-run --no-default-browser-check --password-store=basic\"\n"});
  recipe.files.push_back(
      {.path = "usr/share/applications/google-chrome.desktop",
       .content = "[Desktop Entry]\nType=Application\nName=Chromium (as google-chrome)\n"
                  "Exec=/usr/bin/chromium %U\nIcon=chromium\nNoDisplay=true\n"});
  recipe.links.push_back({.path = "opt/noVNC", .target = "/usr/share/novnc"});
  return recipe;
}

std::vector<Recipe> builtin_recipes() {
  return {default_recipe(), code_interpreter_recipe(), desktop_recipe()};
}

Result<Recipe> find_recipe(std::string_view name) {
  for (Recipe& recipe : builtin_recipes()) {
    if (recipe.name == (name == "base" ? "default" : name)) {
      return std::move(recipe);
    }
  }
  return fail(Code::kNotFound, concat("there is no builtin template \"", name, "\""));
}

std::string recipe_version(const Recipe& recipe) {
  ByteWriter writer;
  writer.u32(kBuilderRevision).string(architecture());
  writer.string(recipe.name).string(recipe.suite);
  writer.strings(recipe.packages).strings(recipe.dpkg_options);
  writer.u32(static_cast<std::uint32_t>(recipe.files.size()));
  for (const RecipeFile& file : recipe.files) {
    writer.string(file.path).string(file.content).u32(file.mode);
  }
  // Only when there are any: the recipes without keep the version, and the archive, they had.
  for (const RecipeLink& link : recipe.links) {
    writer.string(link.path).string(link.target);
  }
  writer.strings(recipe.emptied_directories).strings(recipe.removed_files);
  const std::string& bytes = writer.bytes();
  unsigned char digest[SHA256_DIGEST_LENGTH];
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return hex({reinterpret_cast<const char*>(digest), 6});
}

}  // namespace atl::image
