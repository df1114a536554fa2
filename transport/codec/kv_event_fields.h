// The fields of an engine's KV event, each read from one msgpack value.
#pragma once

#include "transport/codec/msgpack_value.h"
#include "transport/codec/problem.h"
#include "understudy/transport/kv_batch.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::transport {

/// Reads fields into `stored`, which holds those of every type of event. Each member consumes one
/// value, or returns false and leaves the reason in `problem` (or the reader is broken).
class KvFieldReader {
 public:
  /// `mm_items` counts extra keys, media and offsets over a whole batch.
  KvFieldReader(const KvBatchLimits& limits,
                std::size_t& mm_items,
                EngineKvStored& stored,
                Problem& problem)
      : limits_(limits), mm_items_(mm_items), stored_(stored), problem_(problem) {}

  [[nodiscard]] bool Hashes(MsgpackReader& value, std::string_view field);
  [[nodiscard]] bool Parent(MsgpackReader& value, std::string_view field);
  [[nodiscard]] bool Tokens(MsgpackReader& value, std::string_view field);
  [[nodiscard]] bool BlockSize(MsgpackReader& value, std::string_view field);
  [[nodiscard]] bool ExtraKeys(MsgpackReader& value, std::string_view field);
  [[nodiscard]] bool MmInfos(MsgpackReader& value, std::string_view field);
  /// nil or a text.
  [[nodiscard]] bool Name(MsgpackReader& value,
                          std::string_view field,
                          std::optional<std::string>& out);
  /// nil or a number below 2^32.
  [[nodiscard]] bool Number(MsgpackReader& value,
                            std::string_view field,
                            std::optional<std::uint32_t>& out);
  /// A number below 2^32.
  [[nodiscard]] bool U32(MsgpackReader& value, std::string_view field, std::uint32_t& out);

 private:
  [[nodiscard]] bool Count(std::string_view field, std::uint64_t count, std::size_t count_max);
  [[nodiscard]] bool Hash(MsgpackReader& value, std::string_view field, BlockHash& out);
  [[nodiscard]] bool TokenPair(MsgpackReader& value, std::string_view field, std::uint32_t& second);
  [[nodiscard]] bool KeysOfBlock(MsgpackReader& value, std::string_view field, std::uint32_t block);
  [[nodiscard]] bool ExtraKey(MsgpackReader& value, std::string_view field, std::uint32_t block);
  [[nodiscard]] bool MmInfo(MsgpackReader& value, std::string_view field, std::uint32_t block);
  [[nodiscard]] bool Object(MsgpackReader& value, std::string_view field, MmObject& out);
  [[nodiscard]] bool Offsets(MsgpackReader& value, std::string_view field, MmObject& out);

  const KvBatchLimits& limits_;
  std::size_t& mm_items_;
  EngineKvStored& stored_;
  Problem& problem_;
};

}  // namespace understudy::transport
