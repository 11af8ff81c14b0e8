#include "control/lineage.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "base/strings.h"
#include "control/sandboxes.h"

namespace atl::control {
namespace {

Relative alone(const Sandbox& sandbox) {
  return {.id = sandbox.id,
          .team_id = sandbox.team_id,
          .cause = "template",
          .name = sandbox.name,
          .template_name = sandbox.template_name,
          .created_at = sandbox.created_at};
}

// Parents before children, without recursion: a chain may be as long as there are members.
std::vector<FamilyMember> in_tree_order(std::vector<Relative> relatives) {
  std::ranges::sort(relatives, [](const Relative& a, const Relative& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  std::map<std::string_view, std::vector<std::size_t>> children;
  std::map<std::string_view, std::size_t> by_id;
  for (std::size_t i = 0; i < relatives.size(); ++i) {
    by_id.emplace(relatives[i].id, i);
  }
  std::vector<std::pair<std::size_t, std::size_t>> next;  // member, depth; the last comes first
  for (std::size_t i = 0; i < relatives.size(); ++i) {
    if (by_id.contains(relatives[i].parent_id)) {
      children[relatives[i].parent_id].push_back(i);
    } else {
      next.emplace_back(i, 0);
    }
  }
  std::ranges::reverse(next);
  std::vector<std::pair<std::size_t, std::size_t>> order;
  while (!next.empty()) {
    const auto [at, depth] = next.back();
    next.pop_back();
    order.emplace_back(at, depth);
    const auto below = children.find(relatives[at].id);
    if (below != children.end()) {
      for (const std::size_t child : std::views::reverse(below->second)) {
        next.emplace_back(child, depth + 1);
      }
    }
  }
  std::vector<FamilyMember> members;
  members.reserve(order.size());
  for (const auto& [at, depth] : order) {
    members.push_back({.relative = std::move(relatives[at]), .depth = depth});
  }
  return members;
}

}  // namespace

Task<std::vector<FamilyMember>> Lineage::trees(std::string team_id) const {
  CO_TRY(auto relatives,
         co_await store_.run([&](store::Store& store) { return store.list_relatives(team_id); }));
  std::set<std::string, std::less<>> known;
  for (const Relative& relative : relatives) {
    known.insert(relative.id);
  }
  const auto listed = sandboxes_.list({.team_id = team_id, .limit = SIZE_MAX});
  for (const Sandbox& sandbox : listed.sandboxes) {
    if (!known.contains(sandbox.id)) {
      relatives.push_back(alone(sandbox));
    }
  }
  auto members = in_tree_order(std::move(relatives));
  for (FamilyMember& member : members) {
    if (const auto sandbox = sandboxes_.get(team_id, member.relative.id)) {
      member.status = sandbox->status;
    }
  }
  co_return std::move(members);
}

Task<std::vector<FamilyMember>> Lineage::tree_of(std::string team_id, std::string id) const {
  CO_TRY(auto all, co_await trees(std::move(team_id)));
  const auto self =
      std::ranges::find(all, id, [](const FamilyMember& member) { return member.relative.id; });
  if (self == all.end()) {
    co_return fail(Code::kNotFound,
                   concat("there is no sandbox or snapshot \"", to_valid_utf8(id), "\""),
                   "sandbox_not_found");
  }
  const auto is_root = [](const FamilyMember& member) { return member.depth == 0; };
  auto begin = self;
  while (!is_root(*begin)) {
    --begin;
  }
  const auto end = std::find_if(self + 1, all.end(), is_root);
  co_return std::vector<FamilyMember>{std::make_move_iterator(begin), std::make_move_iterator(end)};
}

}  // namespace atl::control
