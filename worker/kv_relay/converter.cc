#include "worker/kv_relay/converter.h"

#include "understudy/transport/token_hash.h"
#include "worker/kv_relay/mm_keys.h"
#include "worker/log/log.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace understudy::worker {

using transport::BlockMmInfo;
using transport::EngineKvBatch;
using transport::EngineKvCleared;
using transport::EngineKvEvent;
using transport::EngineKvIgnored;
using transport::EngineKvRemoved;
using transport::EngineKvStored;
using transport::RouterEvent;

namespace {

constexpr std::string_view kLog = "worker.kv_relay";

bool IsLower(transport::StorageTier tier) {
  return tier == transport::StorageTier::kDisk || tier == transport::StorageTier::kExternal;
}

}  // namespace

std::string_view EventTypeLabel(KvEventType type) {
  static constexpr std::array<std::string_view, kKvEventTypes> kLabels = {
      "stored", "removed", "cleared", "ignored"};
  return kLabels[static_cast<std::size_t>(type)];
}

KvEventType TypeOf(const EngineKvEvent& event) {
  return static_cast<KvEventType>(event.index());  // the variant's order is the enum's
}

void KvEventConverter::Convert(const EngineKvBatch& batch, std::vector<RouterEvent>& out) {
  counters_.unreadable += batch.problems_total;
  const DpRank rank = batch.dp_rank ? DpRank{*batch.dp_rank} : options_.dp_rank;
  if (!batch.events.empty() && !Remember(rank)) {
    counters_.unreadable += batch.events.size();
    return;
  }
  for (const EngineKvEvent& event : batch.events) {
    const std::size_t type = event.index();
    ++counters_.received[type];
    Head head;
    head.rank = rank;
    const Reason reason = std::visit([&](const auto& one) { return Check(one, head); }, event);
    if (reason) {
      ++counters_.filtered[type][static_cast<std::size_t>(*reason)];
      continue;
    }
    ++counters_.accepted[type];
    std::visit([&](const auto& one) { Append(one, head, out); }, event);
  }
}

bool KvEventConverter::Remember(DpRank rank) {
  if (std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end()) {
    if (ranks_.size() == kRanksMax) {
      return false;
    }
    ranks_.push_back(rank);
  }
  return true;
}

void KvEventConverter::Restart(std::vector<RouterEvent>& out) {
  filter_.Forget();
  namespaces_.Forget();
  for (const DpRank rank : ranks_) {
    Head head;
    head.rank = rank;
    NewEvent(RouterEvent::Kind::kCleared, head, out);
  }
  ranks_.clear();
}

KvEventConverter::Reason KvEventConverter::Check(const EngineKvStored& event, Head& head) {
  const Reason reason = filter_.Check(event.scope, head.rank, true, head.tier);
  if (reason || !options_.rules.cache_salts) {
    return reason;
  }
  head.salt = SaltOf(event);
  if (!IsLower(head.tier) && !namespaces_.OnStored(event, head.rank, head.salt)) {
    return KvFilterReason::kAmbiguousCacheNamespace;
  }
  return std::nullopt;
}

KvEventConverter::Reason KvEventConverter::Check(const EngineKvRemoved& event, Head& head) {
  const Reason reason = filter_.Check(event.scope, head.rank, false, head.tier);
  if (!reason && options_.rules.cache_salts && !IsLower(head.tier)) {
    namespaces_.OnRemoved(event, head.rank);
  }
  return reason;
}

KvEventConverter::Reason KvEventConverter::Check(const EngineKvCleared& event, Head& head) {
  const Reason reason = KvEventFilter::Check(event);
  if (!reason) {
    namespaces_.OnCleared(head.rank);
  }
  return reason;
}

KvEventConverter::Reason KvEventConverter::Check(const EngineKvIgnored& /*event*/, Head& /*head*/) {
  return KvFilterReason::kIgnoredEvent;
}

RouterEvent& KvEventConverter::NewEvent(RouterEvent::Kind kind,
                                        const Head& head,
                                        std::vector<RouterEvent>& out) {
  RouterEvent& event = out.emplace_back();
  event.worker_id = options_.worker_id;
  event.dp_rank = head.rank;
  event.event_id = next_event_id_++;
  event.kind = kind;
  event.tier = head.tier;
  return event;
}

void KvEventConverter::Warn(std::uint32_t& count, const std::string& text) {
  if (count < kWarningsMax) {
    ++count;
    Log(LogLevel::kWarn, kLog, text, {{"dp_rank", std::to_string(Value(options_.dp_rank))}});
  }
}

bool KvEventConverter::RepeatsAHash(const EngineKvStored& event) {
  sorted_hashes_.assign(event.hashes.begin(), event.hashes.end());
  if (event.parent) {
    sorted_hashes_.push_back(*event.parent);
  }
  std::sort(sorted_hashes_.begin(), sorted_hashes_.end());
  return std::adjacent_find(sorted_hashes_.begin(), sorted_hashes_.end()) != sorted_hashes_.end();
}

std::size_t KvEventConverter::BlocksThatFit(const EngineKvStored& event) {
  const std::size_t asked = event.hashes.size();
  if (asked == 0) {
    return 0;
  }
  if (event.block_size != options_.block_size) {
    counters_.blocks_cut += asked;
    Warn(cut_warnings_,
         "Block not published. Block size must be " + std::to_string(options_.block_size) +
             " tokens to be published. Block size is: " + std::to_string(event.block_size));
    return 0;
  }
  const transport::TokenWindows windows(event.tokens, options_.block_size, event.is_eagle);
  if (asked > windows.size()) {
    counters_.blocks_cut += asked - windows.size();
    const std::size_t needed =
        (windows.size() + 1) * options_.block_size + (event.is_eagle ? 1 : 0);
    Warn(cut_warnings_,
         "Block not published. token_ids too short: need " + std::to_string(needed) + ", got " +
             std::to_string(event.tokens.size()));
  }
  return std::min(asked, windows.size());
}

std::span<const std::uint32_t> KvEventConverter::WithPadTokens(
    std::span<const std::uint32_t> window, std::span<const transport::MmObject> objects) {
  padded_tokens_.assign(window.begin(), window.end());
  std::size_t run = 0;  // number of the current or next run of placeholders
  bool in_run = false;
  for (std::uint32_t& token : padded_tokens_) {
    const bool is_placeholder = token == *options_.image_token_id;
    run += in_run && !is_placeholder ? 1 : 0;
    in_run = is_placeholder;
    if (is_placeholder) {  // more runs than media: the last one stands for the rest
      token = transport::MmPadToken(objects[std::min(run, objects.size() - 1)].mm_hash);
    }
  }
  return padded_tokens_;
}

TokensHash KvEventConverter::HashBlock(std::span<const std::uint32_t> window,
                                       std::span<const transport::MmObject> objects,
                                       std::uint64_t seed) {
  mm_hashes_.clear();
  if (!objects.empty() && options_.image_token_id) {
    return transport::HashWindow(WithPadTokens(window, objects), mm_hashes_, seed);
  }
  for (const auto& object : objects) {
    mm_hashes_.push_back(object.mm_hash);
  }
  return transport::HashWindow(window, mm_hashes_, seed);
}

void KvEventConverter::Append(const EngineKvStored& event,
                              const Head& head,
                              std::vector<RouterEvent>& out) {
  if (RepeatsAHash(event)) {
    // Dynamo makes an empty removal of it, which its own deduplication then swallows.
    ++counters_.repeated_hash;
    Warn(repeat_warnings_,
         "stored event dropped: it names a block twice, or a block as its own parent");
    return;
  }
  const std::size_t fitting = BlocksThatFit(event);
  RouterEvent& stored = NewEvent(RouterEvent::Kind::kStored, head, out);
  stored.parent = event.parent;
  if (options_.rules.session_ids) {
    stored.session_id = event.session_id;
  }
  stored.mm_infos = event.has_mm_infos
                        ? event.mm_infos
                        : MmInfosOfKeys(event.extra_keys, options_.rules.mm_keys_are_padded);
  std::erase_if(stored.mm_infos, [&](const BlockMmInfo& info) { return info.block >= fitting; });
  const std::uint64_t seed =
      transport::TokenHashSeed(event.lora_name.value_or(std::string()), head.salt);
  const transport::TokenWindows windows(event.tokens, options_.block_size, event.is_eagle);
  stored.blocks.reserve(fitting);
  auto info = stored.mm_infos.begin();
  for (std::size_t i = 0; i < fitting; ++i) {
    std::span<const transport::MmObject> objects;
    if (info != stored.mm_infos.end() && info->block == i) {
      objects = (info++)->objects;
    }
    stored.blocks.push_back({event.hashes[i], HashBlock(windows[i], objects, seed)});
  }
  counters_.empty_store_blocks += stored.blocks.empty() ? 1U : 0U;
}

void KvEventConverter::Append(const EngineKvRemoved& event,
                              const Head& head,
                              std::vector<RouterEvent>& out) {
  RouterEvent& removed = NewEvent(RouterEvent::Kind::kRemoved, head, out);
  removed.blocks.reserve(event.hashes.size());
  for (const BlockHash hash : event.hashes) {
    removed.blocks.push_back({hash, {}});
  }
}

void KvEventConverter::Append(const EngineKvCleared& /*event*/,
                              const Head& head,
                              std::vector<RouterEvent>& out) {
  NewEvent(RouterEvent::Kind::kCleared, head, out);
}

void KvEventConverter::Append(const EngineKvIgnored& /*event*/,
                              const Head& /*head*/,
                              std::vector<RouterEvent>& /*out*/) {}

}  // namespace understudy::worker
