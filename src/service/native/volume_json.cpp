#include "service/native/volume_json.h"

#include "base/strings.h"
#include "control/resources.h"
#include "control/s3_settings.h"
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

Result<> parse_s3(const Fields& volume, control::VolumeCreate& request) {
  TRY(const auto fields,
      volume.object("s3", {"provider", "bucket", "prefix", "region", "endpoint_url", "access_key",
                           "secret_key", "session_token"}));
  control::S3Settings settings;
  TRY(const auto provider, fields.string("provider"));
  TRY(settings.location.bucket, fields.required_string("bucket"));
  TRY(const auto prefix, fields.string("prefix"));
  TRY(const auto region, fields.string("region"));
  TRY(const auto endpoint, fields.string("endpoint_url"));
  settings.location.provider = provider.value_or("aws");
  settings.prefix = prefix.value_or("");
  settings.location.region = region.value_or("");
  settings.location.endpoint_url = endpoint.value_or("");
  s3::Credentials credentials;
  TRY(std::string id, fields.required_string("access_key"));
  TRY(std::string key, fields.required_string("secret_key"));
  TRY(auto token, fields.string("session_token"));
  credentials.access_key = secrets::Plaintext{id};
  credentials.secret_key = secrets::Plaintext{key};
  credentials.session_token = secrets::Plaintext{token.value_or("")};
  secrets::wipe(key);
  request.settings = control::s3_settings_json(settings);
  request.secret = control::pack_credentials(credentials);
  return {};
}

// What may be shown of a bucket: everything but the credentials.
Json s3_json(const control::Volume& volume) {
  const auto settings = control::parse_s3_settings(volume.settings);
  if (!settings) {
    return Json{nullptr};
  }
  Json json = Json::object(
      {{"provider", settings->location.provider}, {"bucket", settings->location.bucket}});
  for (const auto& [name, value] :
       {std::pair{"prefix", &settings->prefix}, std::pair{"region", &settings->location.region},
        std::pair{"endpoint_url", &settings->location.endpoint_url}}) {
    if (!value->empty()) {
      json.set(name, *value);
    }
  }
  return json;
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
  if (request.backend == control::kS3Backend) {
    TRY_DO(parse_s3(fields, request));
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
  Json json = Json::object(
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
  if (volume.backend == control::kS3Backend) {
    json.set("s3", s3_json(volume));
  }
  return json;
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
