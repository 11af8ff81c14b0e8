#include "store/sqlite/template_rows.h"

#include "base/strings.h"
#include "store/sqlite/columns.h"

namespace atl::store::template_rows {

Result<> put(Database& database, const Template& value) {
  const std::string layers = encode_list(value.layers);
  TRY(auto row, database.prepare("INSERT OR REPLACE INTO templates"
                                 " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  row->bind(value.name).bind(value.alias).bind(layers).bind(value.spec);
  row->bind(std::int64_t{value.builtin}).bind(value.updated_at).bind(value.team_id);
  row->bind(template_state_name(value.state)).bind(value.failure).bind(value.config);
  return row->bind(value.created_at).run();
}

Result<> remove(Database& database, const std::string& name) {
  TRY(auto row, database.prepare("DELETE FROM templates WHERE name = ?"));
  return row->bind(name).run();
}

Result<std::vector<Template>> list(Database& database) {
  TRY(auto row,
      database.prepare("SELECT name, alias, layers, spec, builtin, updated_at, team_id, state,"
                       " failure, config, created_at FROM templates ORDER BY name"));
  std::vector<Template> templates;
  for (;;) {
    TRY(const bool found, row->step());
    if (!found) {
      return templates;
    }
    Template& value = templates.emplace_back();
    value.name = row->text();
    value.alias = row->text();
    TRY(value.layers, decode_list(row->text()));
    value.spec = row->text();
    value.builtin = row->integer() != 0;
    value.updated_at = row->integer();
    value.team_id = row->text();
    const auto state = parse_template_state(row->text());
    if (!state) {
      return fail(Code::kDataLoss, concat("template ", value.name, " has an unknown state"));
    }
    value.state = *state;
    value.failure = row->text();
    value.config = row->text();
    value.created_at = row->integer();
  }
}

}  // namespace atl::store::template_rows
