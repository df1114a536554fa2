#include "worker/config/release_profile.h"

namespace understudy::worker {

Result<ReleaseProfile> MakeReleaseProfile(const std::string& release,
                                          const transport::EndpointName& endpoint,
                                          std::uint64_t publisher_id) {
  if (release != "1.3") {
    return Fail(
        Errc::kInvalidConfig,
        "--dynamo-release '" + release + "' is not supported by this version (allowed: 1.3)");
  }
  ReleaseProfile profile;
  profile.name = release;
  profile.service_version = "1.3.0+post1";
  EventRoute load;
  load.topic = "kv_metrics";
  load.subject = "namespace." + endpoint.ns + ".kv_metrics";
  load.publisher_id = publisher_id;
  load.channel = transport::EncodeEventChannel13({endpoint.ns, "", load.topic, publisher_id});
  profile.load_routes.push_back(std::move(load));
  return profile;
}

}  // namespace understudy::worker
