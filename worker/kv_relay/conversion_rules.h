// What the releases do differently with an engine's KV events; part of the release profile.
#pragma once

#include "understudy/transport/router_event.h"

#include <optional>
#include <string_view>

namespace understudy::worker {

/// Source: events.md 1.3 to 1.6. The engine does not know for which release it publishes, so how
/// its bytes are read is the same for both (see DecodeKvBatch).
struct KvConversionRules {
  /// 1.3 takes a medium it does not know for the device; 1.6 drops the event.
  bool unknown_medium_is_device = true;
  /// 1.6: the medium STORAGE is a disk.
  bool knows_storage = false;
  /// 1.6: disk and external tiers pass without a look at the cache group.
  bool lower_tiers_pass = false;
  /// 1.3: any text of 64 hexadecimal digits among the extra keys names a medium; 1.6: only 16
  /// digits followed by 48 zeros.
  bool mm_keys_are_padded = false;
  /// 1.6: cache salts separate equal tokens, and children inherit them.
  bool cache_salts = false;
  /// 1.6: session ids go out.
  bool session_ids = false;
};
inline constexpr KvConversionRules kKvConversion13{};
inline constexpr KvConversionRules kKvConversion16{false, true, true, true, true, true};

/// The tier of a medium; empty = absent. nullopt: these rules drop the event.
[[nodiscard]] std::optional<transport::StorageTier> TierOfMedium(std::string_view medium,
                                                                 const KvConversionRules& rules);

/// The medium that names `tier` to a listener of either release; empty for the device, which is
/// left out.
[[nodiscard]] std::string_view MediumOfTier(transport::StorageTier tier);

}  // namespace understudy::worker
