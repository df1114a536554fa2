// Ids are types, so that two numbers of one width cannot be swapped.
#pragma once

#include <cstdint>
#include <type_traits>

namespace understudy {

/// A worker's instance id in discovery (a worker process may hold several).
enum class WorkerId : std::uint64_t {};
/// A live request inside this process, never reused while late output may arrive: slot number
/// below, generation above.
enum class RequestId : std::uint64_t {};
/// A scheduler inside this process: worker number x data-parallel size + dp rank.
enum class RankIndex : std::uint32_t {};
/// A data-parallel rank as the router sees it, 0 .. dp size - 1.
enum class DpRank : std::uint32_t {};
/// Chained hash that names a full KV block (Dynamo: sequence hash, sent as `block_hash`).
enum class BlockHash : std::uint64_t {};
/// Hash of one block's own tokens (Dynamo: local block hash, sent as `tokens_hash`).
enum class TokensHash : std::uint64_t {};

template <class Id>
constexpr auto Value(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace understudy
