#include "store/sqlite/sandbox_rows.h"

#include "base/strings.h"
#include "store/sqlite/columns.h"

namespace atl::store {
namespace {

void bind_limits(Statement& row, const Limits& limits) {
  row.bind(static_cast<std::int64_t>(limits.memory_bytes));
  row.bind(std::int64_t{limits.cpu_millis});
  row.bind(std::int64_t{limits.process_count});
  row.bind(static_cast<std::int64_t>(limits.disk_bytes));
}

}  // namespace

Result<Sandbox> read_sandbox(Statement& row) {
  Sandbox sandbox;
  sandbox.id = row.text();
  sandbox.team_id = row.text();
  sandbox.template_name = row.text();
  TRY(sandbox.layers, decode_list(row.text()));
  const auto status = parse_status(row.text());
  if (!status) {
    return fail(Code::kDataLoss, concat("sandbox ", sandbox.id, " has an unknown status"), "store");
  }
  sandbox.status = *status;
  sandbox.generation = row.integer();
  TRY(sandbox.env, decode_map(row.text()));
  sandbox.limits.memory_bytes = static_cast<std::uint64_t>(row.integer());
  sandbox.limits.cpu_millis = static_cast<std::uint32_t>(row.integer());
  sandbox.limits.process_count = static_cast<std::uint32_t>(row.integer());
  sandbox.limits.disk_bytes = static_cast<std::uint64_t>(row.integer());
  sandbox.auto_resume = row.integer() != 0;
  sandbox.ttl_seconds = row.integer();
  sandbox.hard_ttl_seconds = row.integer();
  sandbox.expires_at = row.optional_integer();
  sandbox.hard_expires_at = row.optional_integer();
  TRY(sandbox.labels, decode_map(row.text()));
  sandbox.failure = row.text();
  sandbox.claimed_at = row.integer();
  sandbox.created_at = row.integer();
  sandbox.updated_at = row.integer();
  sandbox.name = row.text();
  sandbox.idle_ttl_seconds = row.integer();
  sandbox.parent_id = row.text();
  sandbox.ephemeral_tmp = row.integer() != 0;
  TRY(sandbox.mounts, decode_mounts(row.text()));
  return sandbox;
}

Result<> insert_row(Database& database, const Sandbox& sandbox) {
  const std::string layers = encode_list(sandbox.layers);
  const std::string env = encode_map(sandbox.env);
  const std::string labels = encode_map(sandbox.labels);
  const std::string mounts = encode_mounts(sandbox.mounts);
  TRY(auto row,
      database.prepare("INSERT INTO sandboxes (id, team_id, template, layers, status, generation,"
                       " env, memory_bytes, cpu_millis, process_count, disk_bytes, auto_resume,"
                       " ttl_seconds, hard_ttl_seconds, expires_at, hard_expires_at, labels,"
                       " failure, claimed_at, created_at, updated_at, name, idle_ttl_seconds,"
                       " parent_id, ephemeral_tmp, mounts)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
                       " nullif(?, ''), ?, ?, ?, ?)"));
  row->bind(sandbox.id).bind(sandbox.team_id).bind(sandbox.template_name).bind(layers);
  row->bind(status_name(sandbox.status)).bind(sandbox.generation).bind(env);
  bind_limits(*row, sandbox.limits);
  row->bind(std::int64_t{sandbox.auto_resume}).bind(sandbox.ttl_seconds);
  row->bind(sandbox.hard_ttl_seconds).bind(sandbox.expires_at).bind(sandbox.hard_expires_at);
  row->bind(labels).bind(sandbox.failure).bind(sandbox.claimed_at).bind(sandbox.created_at);
  return row->bind(sandbox.updated_at)
      .bind(sandbox.name)
      .bind(sandbox.idle_ttl_seconds)
      .bind(sandbox.parent_id)
      .bind(std::int64_t{sandbox.ephemeral_tmp})
      .bind(mounts)
      .run();
}

Result<> configure_row(Database& database, const Sandbox& sandbox, const Expected& expected) {
  const std::string env = encode_map(sandbox.env);
  const std::string labels = encode_map(sandbox.labels);
  const std::string mounts = encode_mounts(sandbox.mounts);
  TRY(auto row,
      database.prepare("UPDATE sandboxes SET env = ?, labels = ?, memory_bytes = ?, cpu_millis = ?,"
                       " process_count = ?, disk_bytes = ?, auto_resume = ?, ttl_seconds = ?,"
                       " hard_ttl_seconds = ?, idle_ttl_seconds = ?, expires_at = ?,"
                       " hard_expires_at = ?, updated_at = ?, mounts = ?"
                       " WHERE id = ? AND status = ? AND generation = ?"));
  row->bind(env).bind(labels);
  bind_limits(*row, sandbox.limits);
  row->bind(std::int64_t{sandbox.auto_resume}).bind(sandbox.ttl_seconds);
  row->bind(sandbox.hard_ttl_seconds).bind(sandbox.idle_ttl_seconds).bind(sandbox.expires_at);
  row->bind(sandbox.hard_expires_at).bind(sandbox.updated_at).bind(mounts).bind(sandbox.id);
  return row->bind(status_name(expected.status)).bind(expected.generation).run();
}

}  // namespace atl::store
