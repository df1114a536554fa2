#include "worker/kv_relay/cache_namespaces.h"

#include <utility>

namespace understudy::worker {

using transport::EngineKvRemoved;
using transport::EngineKvStored;

CacheNamespaces::Salt CacheNamespaces::Share(const EngineKvStored& event,
                                             DpRank rank,
                                             const std::string& salt) const {
  if (event.parent) {
    const auto parent = blocks_.find({rank, *event.parent});
    if (parent != blocks_.end() && parent->second != nullptr && *parent->second == salt) {
      return parent->second;
    }
  }
  return std::make_shared<const std::string>(salt);
}

bool CacheNamespaces::OnStored(const EngineKvStored& event, DpRank rank, std::string& salt) {
  if (salt.empty() && blocks_.empty()) {
    return true;
  }
  if (salt.empty() && event.parent) {
    const auto parent = blocks_.find({rank, *event.parent});
    if (parent != blocks_.end()) {
      if (parent->second == nullptr) {
        return false;
      }
      salt = *parent->second;
    }
  }
  const Salt shared = salt.empty() ? nullptr : Share(event, rank, salt);
  for (const BlockHash hash : event.hashes) {
    const auto known = blocks_.find({rank, hash});
    if (known != blocks_.end()) {
      const bool same = shared != nullptr && known->second != nullptr && *known->second == *shared;
      if (!same) {
        known->second = nullptr;
      }
    } else if (shared != nullptr && blocks_.size() < kBlocksMax) {
      blocks_.emplace(Key{rank, hash}, shared);
    } else if (shared != nullptr) {
      ++overflows_;
    }
  }
  return true;
}

void CacheNamespaces::OnRemoved(const EngineKvRemoved& event, DpRank rank) {
  if (blocks_.empty()) {
    return;
  }
  for (const BlockHash hash : event.hashes) {
    const auto known = blocks_.find({rank, hash});
    // An ambiguous block stays: another tenant may still hold the hash.
    if (known != blocks_.end() && known->second != nullptr) {
      blocks_.erase(known);
    }
  }
}

void CacheNamespaces::OnCleared(DpRank rank) {
  std::erase_if(blocks_, [rank](const auto& block) { return block.first.rank == rank; });
}

std::string SaltOf(const EngineKvStored& event) {
  static constexpr std::string_view kMarker = "dynamo-cache-salt:";
  if (event.cache_salt) {
    return *event.cache_salt;
  }
  bool lora_expected = event.lora_name.has_value() && !event.lora_name->empty();
  for (const auto& key : event.extra_keys) {
    if (key.block != 0) {
      break;
    }
    const std::string_view text = key.text;
    if (lora_expected && text == *event.lora_name) {
      lora_expected = false;
    } else if (text.size() > kMarker.size() && text.substr(0, kMarker.size()) == kMarker) {
      return std::string(text.substr(kMarker.size()));
    }
  }
  return {};
}

}  // namespace understudy::worker
