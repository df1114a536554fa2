#include "worker/kv_relay/conversion_rules.h"

#include <array>
#include <utility>

namespace understudy::worker {

using transport::StorageTier;

std::optional<StorageTier> TierOfMedium(std::string_view medium, const KvConversionRules& rules) {
  static constexpr std::array<std::pair<std::string_view, StorageTier>, 13> kMedia = {{
      {"", StorageTier::kDevice},
      {"GPU", StorageTier::kDevice},
      {"DEVICE", StorageTier::kDevice},
      {"CPU", StorageTier::kHostPinned},
      {"CPU_PINNED", StorageTier::kHostPinned},
      {"CPU_TIER1", StorageTier::kHostPinned},
      {"CPU_TIER2", StorageTier::kDisk},
      {"DISK", StorageTier::kDisk},
      {"NVME", StorageTier::kDisk},
      {"EXTERNAL", StorageTier::kExternal},
      {"NETWORK", StorageTier::kExternal},
      {"REMOTE", StorageTier::kExternal},
      {"SHARED", StorageTier::kExternal},
  }};
  for (const auto& [name, tier] : kMedia) {
    if (name == medium) {
      return tier;
    }
  }
  if (medium == "STORAGE" && rules.knows_storage) {
    return StorageTier::kDisk;
  }
  return rules.unknown_medium_is_device ? std::optional(StorageTier::kDevice) : std::nullopt;
}

std::string_view MediumOfTier(StorageTier tier) {
  switch (tier) {
    case StorageTier::kHostPinned:
      return "CPU_PINNED";
    case StorageTier::kDisk:
      return "DISK";
    case StorageTier::kExternal:
      return "EXTERNAL";
    case StorageTier::kDevice:
      break;
  }
  return {};
}

}  // namespace understudy::worker
