// What COPY and ADD mean: which entries of the context go where.
//
// A file goes to the destination's name, or below it when the destination is a directory (a slash
// at its end, or one that is there already). Of a directory the contents go, not the directory. A
// pattern stands for all entries it matches; several sources need a directory as destination.
#include <set>

#include "base/strings.h"
#include "oci/context.h"
#include "oci/digest.h"

namespace atl::oci {
namespace {

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::unexpected<Error> refuse(std::string what) {
  return fail(Code::kInvalidArgument, std::move(what), "copy");
}

// "/a/b/" -> "/a/b", "/" stays.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

class Planner {
 public:
  Planner(const BuildContext& context, const CopyRequest& request)
      : context_(context),
        request_(request),
        is_directory_(request.destination.ends_with('/') || request.destination_is_directory),
        destination_(without_slash(request.destination)) {}

  Result<CopyPlans> plan() {
    TRY(const auto sources, find_sources());
    if (sources.size() + request_.texts.size() > 1 && !is_directory_) {
      return refuse(concat("several files are copied, so the destination ", destination_,
                           " must end with a slash"));
    }
    for (const std::string& source : sources) {
      add_source(source);
    }
    for (const auto& [name, content] : request_.texts) {
      CopyItem item{.text = content, .in_memory = true};
      item.source.entry.size = content.size();
      Sha256 digest;
      digest.update(content);
      item.source.sha256 = digest.hex_digest();
      add_file(name, std::move(item));
    }
    for (CopyPlan& plan : plans_.plans) {
      plan.digest = digest_of(plan);
    }
    return std::move(plans_);
  }

 private:
  // Paths of the context, "" for the whole of it.
  Result<std::vector<std::string>> find_sources() const {
    std::vector<std::string> found;
    for (const std::string& source : request_.sources) {
      if (source.starts_with("http://") || source.starts_with("https://") ||
          source.starts_with("git@")) {
        return refuse(
            concat("\"", source, "\": a build has no network; fetch it before and COPY it"));
      }
      auto clean = clean_path(source);
      if (!clean) {
        return refuse(concat("\"", to_valid_utf8(source), "\" is outside of the build context"));
      }
      const std::size_t before = found.size();
      if (clean->empty() || context_.entries().contains(*clean) || has_content(*clean)) {
        found.push_back(*clean);
      } else if (has_wildcard(*clean)) {
        for (const auto& [path, entry] : context_.entries()) {
          if (matches_path(*clean, path)) {
            found.push_back(path);
          }
        }
      }
      if (found.size() == before) {
        return fail(Code::kNotFound,
                    concat("\"", to_valid_utf8(source), "\" is not in the build context (or ",
                           ".dockerignore leaves it out)"),
                    "copy");
      }
    }
    return found;
  }

  // An archive need not have entries for its directories.
  bool has_content(const std::string& path) const {
    const auto first = context_.entries().lower_bound(path + "/");
    return first != context_.entries().end() && first->first.starts_with(path + "/");
  }

  void add_source(const std::string& source) {
    const auto found = context_.entries().find(source);
    if (found != context_.entries().end() && found->second.entry.type != EntryType::kDirectory) {
      if (request_.unpack_archives && is_archive(context_, found->second)) {
        plans_.archives.push_back(found->second);
        return;
      }
      add_file(std::string{name_of(source)}, {.source = found->second});
      return;
    }
    CopyPlan& plan = plan_for(destination_);
    const std::string prefix = source.empty() ? "" : source + "/";
    for (auto at = context_.entries().lower_bound(prefix);
         at != context_.entries().end() && at->first.starts_with(prefix); ++at) {
      CopyItem item{.source = at->second};
      item.source.entry.path = at->first.substr(prefix.size());
      plan.items.push_back(std::move(item));
    }
  }

  void add_file(std::string name, CopyItem item) {
    std::string root = destination_;
    if (!is_directory_) {
      const auto slash = destination_.rfind('/');
      name = destination_.substr(slash + 1);
      root = slash == 0 ? "/" : destination_.substr(0, slash);
    }
    item.source.entry.path = std::move(name);
    plan_for(root).items.push_back(std::move(item));
  }

  CopyPlan& plan_for(const std::string& root) {
    if (plans_.plans.empty() || plans_.plans.back().root != root) {
      plans_.plans.push_back({.root = root});
    }
    return plans_.plans.back();
  }

  static std::string digest_of(const CopyPlan& plan) {
    Sha256 digest;
    digest.update(concat(plan.root, "\n"));
    for (const CopyItem& item : plan.items) {
      const ArchiveEntry& entry = item.source.entry;
      digest.update(concat(entry.path.size(), ":", entry.path, " ", static_cast<int>(entry.type),
                           " ", entry.mode, " ", item.source.sha256, " ", entry.link_target.size(),
                           ":", entry.link_target, "\n"));
    }
    return digest.hex_digest();
  }

  const BuildContext& context_;
  const CopyRequest& request_;
  const bool is_directory_;
  const std::string destination_;
  CopyPlans plans_;
};

}  // namespace

Result<CopyPlans> plan_copy(const BuildContext& context, const CopyRequest& request) {
  return Planner{context, request}.plan();
}

}  // namespace atl::oci
