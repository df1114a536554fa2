// Values of flags that `understudy call` and `understudy ctl` share. Errors are kInvalidConfig and
// name the option, the value and what is allowed.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/records.h"
#include "worker/config/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

inline constexpr std::int64_t kPromptTokensMax = 1 << 20;

[[nodiscard]] Error RefuseFlag(const std::string& option,
                               const std::string& value,
                               const std::string& allowed);
[[nodiscard]] Result<std::uint32_t> U32InRange(const char* option,
                                               std::int64_t value,
                                               std::int64_t least,
                                               std::int64_t most);
[[nodiscard]] Result<Nanoseconds> SecondsInRange(const char* option,
                                                 double seconds,
                                                 bool zero_allowed);
/// Of --token-ids: 1,2,3.
[[nodiscard]] Result<std::vector<std::uint32_t>> ParseTokenIds(const std::string& text);
/// Of --instance, in hexadecimal.
[[nodiscard]] Result<std::uint64_t> ParseInstance(std::string_view text);
/// --endpoint, or `backend.generate` in --namespace or that of the environment.
[[nodiscard]] Result<transport::EndpointName> ChooseEndpoint(
    const std::optional<std::string>& endpoint,
    const std::optional<std::string>& ns,
    const Environment& env);

}  // namespace understudy::worker
