#include "oci/image_tree.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/strings.h"

namespace atl::oci {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxHops = 40;  // symlinks on the way to one path

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == path.npos ? std::string_view{} : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string join(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string{name} : concat(parent, "/", name);
}

// The runtime mounts its own there.
bool is_kernel_path(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  return first.size() < path.size() && (first == "dev" || first == "proc" || first == "sys");
}

Result<Fd> open_blob(const LayerBlob& blob) {
  Fd fd{::open(blob.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    return fail_errno(concat("opening layer sha256:", blob.sha256));
  }
  return fd;
}

// Where a path of the merged tree comes from.
struct Origin {
  std::uint32_t layer = 0;
  std::uint32_t index = 0;  // of the entry in its layer
  EntryType type = EntryType::kFile;
  std::string link_target;  // of a symlink
};
using Merged = std::map<std::string, Origin, std::less<>>;

// What the second pass does with one entry of a layer.
struct Action {
  std::uint32_t index = 0;
  std::string path;
  std::string link_to;  // not empty: a hard link to this path
};
using Plan = std::vector<std::vector<Action>>;  // per layer, by index

class Merger {
 public:
  Merger(const std::vector<LayerBlob>& layers, ImageTreeLimits limits)
      : layers_(layers), limits_(limits) {}

  Result<Plan> merge() {
    for (std::uint32_t layer = 0; layer < layers_.size(); ++layer) {
      TRY_DO(add_layer(layer));
    }
    return make_plan();
  }

 private:
  struct Pending {
    std::string path;
    Origin origin;
    std::string hardlink;  // target of a hard link
  };
  // The file a hard link stands for: (layer, index), or a path of a lower layer.
  struct Link {
    std::uint32_t index = 0;
    bool in_layer = false;
    std::string lower_path;
  };

  Result<> add_layer(std::uint32_t layer) {
    TRY(const Fd fd, open_blob(layers_[layer]));
    TRY(const auto reader,
        ArchiveReader::open({.fd = fd.get(), .sha256 = layers_[layer].sha256},
                            {.entries = limits_.entries - entries_,
                             .unpacked_bytes = limits_.unpacked_bytes - unpacked_,
                             .whole = true}));
    std::vector<Pending> pending;
    std::vector<std::string> hidden;  // whole subtrees
    std::vector<std::string> emptied;
    for (std::uint32_t index = 0;; ++index) {
      TRY(auto entry, reader->next());
      if (!entry) {
        break;
      }
      ++entries_;
      name_bytes_ += entry->path.size() + entry->link_target.size();
      if (name_bytes_ > kMaxNameBytesTotal) {
        return fail(Code::kResourceExhausted, "the names in the image take too much memory",
                    "archive_too_large");
      }
      sort_entry(*std::move(entry), {layer, index}, pending, hidden, emptied);
    }
    TRY_DO(reader->finish());
    unpacked_ += reader->unpacked_bytes();
    // Whiteouts are about lower layers only, wherever in the archive they stand.
    for (const std::string& path : hidden) {
      const std::string at = resolve_parents(path);
      erase_below(at);
      merged_.erase(at);
    }
    for (const std::string& path : emptied) {
      erase_below(path.empty() ? path : std::string{parent_of(resolve_parents(path + "/x"))});
    }
    return place_all(layer, std::move(pending));
  }

  static void sort_entry(ArchiveEntry entry, Origin origin, std::vector<Pending>& pending,
                         std::vector<std::string>& hidden, std::vector<std::string>& emptied) {
    const std::string_view name = name_of(entry.path);
    if (name == kOpaque) {
      emptied.emplace_back(parent_of(entry.path));
      return;
    }
    if (name.starts_with(kWhiteout)) {
      const std::string_view target = name.substr(kWhiteout.size());
      if (!target.empty() && target != "." && target != "..") {
        hidden.push_back(join(parent_of(entry.path), target));
      }
      return;
    }
    if (entry.path.empty() || entry.type == EntryType::kSkipped || is_kernel_path(entry.path)) {
      return;
    }
    origin.type = entry.type;
    Pending item{std::move(entry.path), std::move(origin), {}};
    if (entry.type == EntryType::kHardlink) {
      item.hardlink = std::move(entry.link_target);
    } else {
      item.origin.link_target = std::move(entry.link_target);
    }
    pending.push_back(std::move(item));
  }

  Result<> place_all(std::uint32_t layer, std::vector<Pending> pending) {
    std::unordered_map<std::string, std::uint32_t> files;  // of this layer: path -> index of data
    for (Pending& item : pending) {
      const std::string path = resolve_parents(item.path);
      if (item.origin.type == EntryType::kHardlink) {
        const std::string target = resolve_parents(item.hardlink);
        Link link;
        if (const auto found = files.find(target); found != files.end()) {
          link = {found->second, true, {}};
          files[path] = found->second;
        } else if (const auto lower = merged_.find(target);
                   lower != merged_.end() && lower->second.type == EntryType::kFile) {
          link.lower_path = target;
          files.erase(path);
        } else {
          return fail(Code::kInvalidArgument,
                      concat("\"", to_valid_utf8(path), "\" is a hard link to \"",
                             to_valid_utf8(target), "\", which is not there"),
                      "bad_archive");
        }
        item.origin.type = EntryType::kFile;
        links_[key(layer, item.origin.index)] = std::move(link);
      } else if (item.origin.type == EntryType::kFile) {
        files[path] = item.origin.index;
      } else {
        files.erase(path);
      }
      place(path, std::move(item.origin));
    }
    return {};
  }

  void place(const std::string& path, Origin origin) {
    const auto there = merged_.find(path);
    const bool keeps_children =
        origin.type == EntryType::kDirectory &&
        (there == merged_.end() || there->second.type == EntryType::kDirectory);
    if (!keeps_children) {
      erase_below(path);
    }
    merged_.insert_or_assign(path, std::move(origin));
  }

  void erase_below(const std::string& path) {
    if (path.empty()) {
      merged_.clear();
      return;
    }
    // '0' is the character behind '/'.
    merged_.erase(merged_.lower_bound(path + "/"), merged_.lower_bound(path + "0"));
  }

  // The path with every symlink on the way to its last component replaced by where it leads.
  std::string resolve_parents(const std::string& path) const {
    std::vector<std::string> rest;  // components still to walk, last one first
    for (const std::string_view part : split(path, '/')) {
      rest.emplace_back(part);
    }
    std::reverse(rest.begin(), rest.end());
    std::string done;
    std::size_t hops = 0;
    while (!rest.empty()) {
      const std::string part = std::move(rest.back());
      rest.pop_back();
      if (part.empty() || part == ".") {
        continue;
      }
      if (part == "..") {
        done = parent_of(done);
        continue;
      }
      const std::string here = join(done, part);
      const auto found = rest.empty() ? merged_.end() : merged_.find(here);
      if (found == merged_.end() || found->second.type != EntryType::kSymlink ||
          ++hops > kMaxHops) {
        done = here;
        continue;
      }
      const std::string& target = found->second.link_target;
      if (target.starts_with('/')) {
        done.clear();
      }
      const auto parts = split(target, '/');
      for (auto at = parts.rbegin(); at != parts.rend(); ++at) {
        rest.emplace_back(*at);
      }
    }
    return done;
  }

  static std::uint64_t key(std::uint32_t layer, std::uint32_t index) {
    return (std::uint64_t{layer} << 32U) | index;
  }

  Result<Plan> make_plan() {
    Plan plan(layers_.size());
    std::unordered_map<std::uint64_t, std::string> first_name;  // of the data of a file
    // Map order within a layer is not archive order: sort by index first.
    std::vector<std::vector<std::pair<std::uint32_t, const std::string*>>> order(layers_.size());
    for (const auto& [path, origin] : merged_) {
      order[origin.layer].emplace_back(origin.index, &path);
    }
    for (std::uint32_t layer = 0; layer < order.size(); ++layer) {
      std::ranges::sort(order[layer]);
      for (const auto& [index, path] : order[layer]) {
        TRY_DO(plan_entry(layer, index, *path, first_name, plan));
      }
      std::ranges::sort(plan[layer], {}, &Action::index);
    }
    return plan;
  }

  Result<> plan_entry(std::uint32_t layer, std::uint32_t index, const std::string& path,
                      std::unordered_map<std::uint64_t, std::string>& first_name, Plan& plan) {
    const auto link = links_.find(key(layer, index));
    if (link != links_.end() && !link->second.in_layer) {
      const auto target = merged_.find(link->second.lower_path);
      if (target == merged_.end() || target->second.layer >= layer) {
        return fail(Code::kInvalidArgument,
                    concat("\"", to_valid_utf8(path),
                           "\" is a hard link to a file that another layer replaces"),
                    "bad_archive");
      }
      plan[layer].push_back({index, path, link->second.lower_path});
      return {};
    }
    // The data stands at the index of the file; the first name that is left gets it there.
    const std::uint32_t data = link == links_.end() ? index : link->second.index;
    const auto [found, first] = first_name.try_emplace(key(layer, data), path);
    plan[layer].push_back(first ? Action{data, path, {}} : Action{index, path, found->second});
    return {};
  }

  const std::vector<LayerBlob>& layers_;
  const ImageTreeLimits limits_;
  Merged merged_;
  std::unordered_map<std::uint64_t, Link> links_;
  std::uint64_t entries_ = 0;
  std::uint64_t unpacked_ = 0;
  std::uint64_t name_bytes_ = 0;
};

class ImageTree final : public TreeSource {
 public:
  ImageTree(std::vector<LayerBlob> layers, Plan plan, ImageTreeLimits limits)
      : layers_(std::move(layers)), plan_(std::move(plan)), limits_(limits) {}

  Result<std::optional<ArchiveEntry>> next() override {
    for (;;) {
      if (reader_ == nullptr) {
        if (layer_ == layers_.size()) {
          return std::nullopt;
        }
        TRY_DO(open_layer());
      }
      if (action_ == plan_[layer_].size()) {
        reader_.reset();
        ++layer_;
        continue;
      }
      const Action& action = plan_[layer_][action_];
      while (!current_ || index_ < action.index) {
        TRY(current_, reader_->next());
        if (!current_) {
          return fail(Code::kDataLoss, "a layer changed while it was read", "bad_archive");
        }
        index_ = index_ == kBeforeFirst ? 0 : index_ + 1;
      }
      ++action_;
      return entry_for(action);
    }
  }

  Result<std::size_t> read(std::span<char> buffer) override { return reader_->read(buffer); }

 private:
  static constexpr std::uint64_t kBeforeFirst = UINT64_MAX;

  Result<> open_layer() {
    TRY(fd_, open_blob(layers_[layer_]));
    TRY(reader_, ArchiveReader::open({.fd = fd_.get()}, {.entries = limits_.entries,
                                                         .unpacked_bytes = limits_.unpacked_bytes,
                                                         .whole = true}));
    current_.reset();
    index_ = kBeforeFirst;
    action_ = 0;
    return {};
  }

  ArchiveEntry entry_for(const Action& action) const {
    ArchiveEntry entry = *current_;
    entry.path = action.path;
    if (!action.link_to.empty()) {
      entry.type = EntryType::kHardlink;
      entry.link_target = action.link_to;
      entry.size = 0;
      entry.attributes.clear();
    }
    return entry;
  }

  const std::vector<LayerBlob> layers_;
  const Plan plan_;
  const ImageTreeLimits limits_;
  std::size_t layer_ = 0;
  std::size_t action_ = 0;
  Fd fd_;
  std::unique_ptr<ArchiveReader> reader_;
  std::optional<ArchiveEntry> current_;
  std::uint64_t index_ = kBeforeFirst;
};

}  // namespace

Result<std::unique_ptr<TreeSource>> open_image_tree(const std::vector<LayerBlob>& layers,
                                                    ImageTreeLimits limits) {
  TRY(Plan plan, Merger(layers, limits).merge());
  return std::make_unique<ImageTree>(layers, std::move(plan), limits);
}

}  // namespace atl::oci
