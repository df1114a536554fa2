// Names of KV blocks, as Dynamo's routers compute them.
#pragma once

#include "understudy/base/ids.h"

#include <cstdint>
#include <span>

namespace understudy::mocker {

/// Hash of one block's own tokens: XXH3-64, seed 1337, over the ids as little-endian u32. Pure.
/// Source: dynamo-tokens 1.3.0; golden vectors pass_*.json, `local_block_hashes`.
[[nodiscard]] TokensHash HashTokens(std::span<const std::uint32_t> tokens);

/// Hash of a block with all that stands before it. Without `parent` (first block of a sequence) it
/// is the tokens' hash itself, else XXH3-64, seed 1337, over parent and own hash as two
/// little-endian u64. Pure. Source: as above, `sequence_hashes`.
[[nodiscard]] BlockHash ChainHash(const BlockHash* parent, TokensHash tokens);

}  // namespace understudy::mocker
