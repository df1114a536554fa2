#include "plugin/mocker/config/timing_config.h"

#include "plugin/mocker/config/check.h"
#include "plugin/mocker/config/config_members.h"
#include "plugin/mocker/config/value_text.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace understudy::mocker {

namespace {

/// `config` of the provider "dynamo_profile".
struct ProfileConfig {
  std::string path;
};

}  // namespace

Result<std::string> ProfilePath(const TimingConfig& timing) {
  constexpr std::array kMembers = {ConfigMember<ProfileConfig>{
      "path", [](JsonReader& r, ProfileConfig& o) { return r.Text(o.path, "path string"); }}};
  JsonReader reader(timing.config, JsonReader::Paths::kNamed, JsonReader::Positions::kOmitted);
  ProfileConfig profile;
  Members seen(reader);
  if (!ReadMembers(reader, "struct Profile", kMembers, profile, seen)) {
    return Refuse(reader);
  }
  UNDERSTUDY_TRY_STATUS(Require(seen.seen(0), "missing field `path`"));
  return profile.path;
}

bool IsAis(const TimingConfig& timing) {
  return timing.type == TimingType::kExternal &&
         (timing.provider == "ais" || timing.provider == "aic");
}

Status CheckProvider(const TimingConfig& timing) {
  if (timing.type != TimingType::kExternal || IsAis(timing)) {
    return {};
  }
  UNDERSTUDY_TRY_STATUS(
      Require(timing.provider == "dynamo_profile",
              "unsupported external timing provider " + QuotedText(timing.provider)));
  UNDERSTUDY_TRY(const std::string path, ProfilePath(timing));
  std::error_code error;
  return Require(std::filesystem::exists(path, error),
                 "Failed to open NPZ file: " + QuotedText(path) + ": " + std::strerror(ENOENT) +
                     " (os error " + std::to_string(ENOENT) + ")");
}

}  // namespace understudy::mocker
