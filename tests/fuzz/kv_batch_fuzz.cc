#include "tests/fuzz/fuzz.h"
#include "understudy/transport/kv_batch.h"

#include <array>

using namespace understudy;

namespace {

/// What an encoder may not change. Extra keys and media of blocks that the event does not name are
/// not written.
void CheckSame(const transport::EngineKvEvent& one, const transport::EngineKvEvent& other) {
  UNDERSTUDY_ASSERT(one.index() == other.index());
  if (const auto* stored = std::get_if<transport::EngineKvStored>(&one)) {
    const auto& again = std::get<transport::EngineKvStored>(other);
    UNDERSTUDY_ASSERT(stored->hashes == again.hashes && stored->parent == again.parent);
    UNDERSTUDY_ASSERT(stored->tokens == again.tokens && stored->is_eagle == again.is_eagle);
    UNDERSTUDY_ASSERT(stored->scope == again.scope && stored->cache_salt == again.cache_salt);
    UNDERSTUDY_ASSERT(stored->block_size == again.block_size);
  } else {
    UNDERSTUDY_ASSERT(one == other);
  }
}

void CheckFrames(std::string_view bytes) {
  const std::size_t cut = bytes.empty() ? 0 : static_cast<std::uint8_t>(bytes[0]) % bytes.size();
  const std::array<std::string_view, 4> frames = {
      {{}, bytes.substr(cut, 8), bytes.substr(0, cut), bytes}};
  for (std::size_t count = 0; count <= frames.size(); ++count) {
    (void)transport::ParseEngineMessage({frames.data(), count});
    (void)transport::ParseReplayReply({frames.data(), count});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  CheckFrames(bytes);
  const auto batch = transport::DecodeKvBatch(bytes);
  if (!batch) {
    return 0;
  }
  UNDERSTUDY_ASSERT(batch->trailing_bytes <= size);
  UNDERSTUDY_ASSERT(batch->problems.size() <= batch->problems_total);
  for (const auto& problem : batch->problems) {
    UNDERSTUDY_ASSERT(!problem.text.empty());
    UNDERSTUDY_ASSERT(problem.position < batch->events.size() + batch->problems_total);
  }
  const auto again = transport::DecodeKvBatch(
      transport::EncodeKvBatch(batch->timestamp_s, batch->events, batch->dp_rank.value_or(0)));
  UNDERSTUDY_ASSERT(again.has_value() && again->problems_total == 0);
  UNDERSTUDY_ASSERT(again->events.size() == batch->events.size());
  for (std::size_t i = 0; i < again->events.size(); ++i) {
    CheckSame(batch->events[i], again->events[i]);
  }
  return 0;
}
