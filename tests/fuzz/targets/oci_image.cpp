// Index, manifest and configuration of an image. The input is the three documents, one per line;
// @0 and @1 in a later one become the digest of an earlier one, as a registry would have it.
#include "base/fd.h"
#include "base/random.h"
#include "base/strings.h"
#include "fuzz.h"
#include "oci/image.h"
#include "temporary.h"

namespace atl::fuzz {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

void oci_image(std::string_view bytes) {
  static const TemporaryDirectory kDirectory;
  Input input{bytes};
  const auto blobs = kDirectory.make("blobs/sha256");
  std::string documents[3];
  std::vector<std::string> written;
  for (int i = 0; i < 3; ++i) {
    documents[i] = input.until('\n');
    for (int earlier = 0; earlier < i; ++earlier) {
      documents[i] = replaced(documents[i], concat("@", earlier),
                              concat("sha256:", hex(sha256(documents[earlier]))));
    }
    const auto path =
        i == 2 ? kDirectory.path() + "/index.json" : concat(blobs, "/", hex(sha256(documents[i])));
    kDirectory.write(path, documents[i]);
    written.push_back(path);
  }
  if (const auto image = oci::open_image_layout(kDirectory.path())) {
    CHECK(image->digest.size() == 64);
    for (const auto& layer : image->layers) {
      CHECK(layer.sha256.size() == 64 && layer.path.starts_with(blobs));
    }
    CHECK(oci::config_from_json(oci::to_json(image->config)) == image->config);
  }
  for (const auto& path : written) {
    kDirectory.remove(path);
  }
  if (const auto json = Json::parse(documents[0])) {
    const auto config = oci::config_from_json(*json);
    CHECK(oci::config_from_json(oci::to_json(config)) == config);
  }
}

Seeds oci_image_seeds() {
  const auto image = [](std::string_view config, std::string_view manifest,
                        std::string_view index) {
    return concat(config, "\n", manifest, "\n", index);
  };
  const auto config =
      concat(R"({"architecture":")", oci::machine_architecture(),
             R"(","os":"linux","config":{"Env":["A=b","C","=d"],"WorkingDir":"/w","User":"u",)",
             R"("Cmd":["sh"],"Entrypoint":["/e"],"Shell":["sh","-c"],"Labels":{"l":"v"},)",
             R"("ExposedPorts":{"80/tcp":{}}}})");
  const std::string digest(64, 'a');
  const auto manifest = concat(R"({"schemaVersion":2,"config":{"digest":"@0"},"layers":[)",
                               R"({"mediaType":"x.tar+gzip","digest":"sha256:)", digest, R"("}]})");
  const auto index = concat(R"({"schemaVersion":2,"manifests":[{"digest":"@1","platform":{"os":)",
                            R"("linux","architecture":")", oci::machine_architecture(), R"("}}]})");
  return {image(config, manifest, index),
          image(config, manifest, R"({"manifests":[{"digest":"@1"}]})"),
          image(config, manifest,
                R"({"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json",)"
                R"("digest":"@1"}]})"),
          image("{}", R"({"config":{"digest":"@0"},"layers":[]})", index),
          image("[]", R"({"config":"@0","layers":{}})", R"({"manifests":{}})"),
          image("{}", R"({"config":{"digest":"sha256:../../x"},"layers":[{}]})", index),
          image("{}", "{}", R"({"manifests":[{"digest":1},null,[],{"platform":[]}]})")};
}

}  // namespace atl::fuzz
