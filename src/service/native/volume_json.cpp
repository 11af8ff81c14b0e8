#include "service/native/volume_json.h"

#include "base/strings.h"
#include "control/resources.h"
#include "service/native/envelope.h"
#include "service/native/fields.h"

namespace atl::service::native {
namespace {

Result<std::optional<control::AccessMode>> parse_mode(const Fields& fields) {
  TRY(const auto text, fields.string("access_mode"));
  if (!text) {
    return std::nullopt;
  }
  const auto mode = store::parse_access_mode(*text);
  if (!mode) {
    return fail(Code::kInvalidArgument,
                "field \"access_mode\" must be \"RWO\", \"ROX\" or \"RWX\"");
  }
  return mode;
}

Result<std::optional<std::uint32_t>> parse_id(const Fields& fields, std::string_view name) {
  TRY(const auto id, fields.integer(name, 0, node::kMaxPosixId));
  return id ? std::optional{static_cast<std::uint32_t>(*id)} : std::nullopt;
}

}  // namespace

Result<control::VolumeCreate> parse_volume_create(const Json& body) {
  control::VolumeCreate request;
  TRY(const auto fields, Fields::of(body, "",
                                    {"snapshot_id", "backend", "s3", "default_posix_uid",
                                     "default_posix_gid", "access_mode", "size"}));
  if (fields.has("snapshot_id")) {
    TRY(request.snapshot_id, fields.required_string("snapshot_id"));
    if (trim(request.snapshot_id).empty()) {
      return fail(Code::kInvalidArgument, "field \"snapshot_id\" must not be blank");
    }
  }
  TRY(const auto backend, fields.string("backend"));
  request.backend = backend.value_or(std::string{control::kLocalBackend});
  if (request.backend == control::kLocalBackend && fields.has("s3")) {
    return fail(Code::kInvalidArgument, "field \"s3\" is for volumes of backend \"s3\"");
  }
  TRY(const auto uid, parse_id(fields, "default_posix_uid"));
  TRY(const auto gid, parse_id(fields, "default_posix_gid"));
  TRY(const auto mode, parse_mode(fields));
  request.posix_uid = uid.value_or(0);
  request.posix_gid = gid.value_or(0);
  request.access_mode = mode.value_or(control::AccessMode::kOne);
  TRY(const auto size, fields.string("size"));
  if (size) {
    request.disk_bytes = parse_quantity(*size);
    if (!request.disk_bytes) {
      return fail(Code::kInvalidArgument, "field \"size\" must be a quantity such as \"10Gi\"");
    }
  }
  return request;
}

Result<control::VolumeFork> parse_volume_fork(const Json& body) {
  control::VolumeFork request;
  TRY(const auto fields,
      Fields::of(body, "", {"default_posix_uid", "default_posix_gid", "access_mode"}));
  TRY(request.posix_uid, parse_id(fields, "default_posix_uid"));
  TRY(request.posix_gid, parse_id(fields, "default_posix_gid"));
  TRY(request.access_mode, parse_mode(fields));
  return request;
}

Json volume_json(const control::VolumeView& view) {
  const control::Volume& volume = view.volume;
  const bool observed = view.used_bytes.has_value();
  Json mounted = Json::array();
  for (const std::string& sandbox : view.sandboxes) {
    mounted.push(sandbox);
  }
  return Json::object(
      {{"id", volume.id},
       {"team_id", volume.team_id},
       {"user_id", volume.user_id},
       {"source_volume_id",
        volume.source_volume_id.empty() ? Json{nullptr} : Json{volume.source_volume_id}},
       {"default_posix_uid", volume.posix_uid},
       {"default_posix_gid", volume.posix_gid},
       {"access_mode", store::access_mode_name(volume.access_mode)},
       {"backend", volume.backend},
       {"size_bytes", volume.disk_bytes},
       {"metered_storage_bytes", observed ? Json{*view.used_bytes} : Json{nullptr}},
       {"storage_observed_at", observed ? Json{rfc3339(view.observed_at)} : Json{nullptr}},
       {"mounted_in", std::move(mounted)},
       {"created_at", rfc3339(volume.created_at)},
       {"updated_at", rfc3339(volume.updated_at)}});
}

Json volume_snapshot_json(const control::VolumeSnapshot& snapshot) {
  return Json::object(
      {{"id", snapshot.id},
       {"volume_id", snapshot.volume_id},
       {"name", snapshot.name},
       {"description", snapshot.description},
       {"size_bytes", snapshot.size_bytes},
       {"created_at", rfc3339(snapshot.created_at)},
       {"expires_at", snapshot.expires_at ? Json{rfc3339(*snapshot.expires_at)} : Json{nullptr}}});
}

}  // namespace atl::service::native
