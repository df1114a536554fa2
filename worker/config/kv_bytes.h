// How many bytes of KV cache a token of a model takes.
#pragma once

#include "understudy/base/result.h"

#include <cstdint>
#include <string>

namespace understudy::worker {

/// From `config.json` in the folder `model`: layers * 2 * KV heads * (hidden size / attention
/// heads)
/// * bytes of `dtype`, which is "auto" (the model's own), or a name of --kv-cache-dtype; unknown
/// ones count 2. Errors: kInvalidConfig, names file and field. Source:
/// dynamo/mocker/utils/kv_cache.py 1.3.0.
[[nodiscard]] Result<std::uint64_t> KvBytesPerToken(const std::string& model,
                                                    const std::string& dtype);

}  // namespace understudy::worker
