// The second place for blocks: the memory of the host, and the two ways between it and the device.
#pragma once

#include "plugin/mocker/kv_cache/kv_pool.h"
#include "understudy/base/clock.h"

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace understudy::mocker {

/// Blocks by their hash: being stored, or resident and then perhaps pinned by loads. Victims are
/// resident ones without pins; least recently used first, by hash among those of one moment. Each
/// way is a queue: a transfer starts when the one before it has ended. Pure, not thread safe.
/// Source: aisimulate-core 0.13.0 host_offload/tier.rs (engine-1.6.md 7); golden vectors
/// engine-1.6/pass_vllm_host_offload*.json.
class HostTier {
 public:
  struct Options {
    std::uint64_t blocks_max = 0;
    std::uint64_t block_bytes = 0;
    double to_host_gbps = 0.0;  ///< 1e9 bytes a second; 0 = no limit
    double to_device_gbps = 0.0;
    Nanoseconds latency{0};
    std::uint32_t block_size = 0;  ///< tokens; for changes that name them
  };
  /// Numbers from 1 on; 0 = none.
  using TransferId = std::uint64_t;
  enum class Found : std::uint8_t { kNothing, kUnderWay, kResident };
  /// A change of the tier, told when it is next asked.
  struct Change {
    bool stored = false;
    std::optional<BlockHash> parent;  ///< of the first one
    std::uint64_t position = 0;       ///< of the first one in its sequence, blocks
    std::vector<engine::KvBlock> blocks;
    std::vector<std::uint32_t> tokens;  ///< of stored blocks, if PrepareStore was told
  };
  struct Done {
    TransferId id = 0;
    bool load = false;
    std::uint32_t owner = 0;  ///< as told to Load
  };

  explicit HostTier(const Options& options);

  /// kUnderWay: it is being stored, or somebody else is loading it.
  [[nodiscard]] Found Find(BlockHash block) const;
  /// The blocks were asked for: the last one first.
  void Touch(std::span<const LogicalBlock> blocks);

  /// Makes room for those of `blocks[from, to)` that are not here (there are some) and announces
  /// them: they leave with SubmitStores. `tokens` are those of the sequence from its start on, or
  /// none. 0: no room.
  [[nodiscard]] TransferId PrepareStore(std::span<const LogicalBlock> blocks,
                                        std::size_t from,
                                        std::size_t to,
                                        KvPool::Tokens tokens);
  /// Slots of the device that the transfer reads from.
  void NameSources(TransferId store, std::vector<std::uint32_t> slots);
  /// What was prepared begins, `at` or later. Calls `busy(slot, until)` for each source.
  template <class Busy>
  void SubmitStores(Nanoseconds at, Busy busy) {
    for (const TransferId id : std::exchange(prepared_, {})) {
      Transfer& transfer = transfers_.at(id);
      Queue(id, transfer, to_host_, at);
      for (const std::uint32_t slot : transfer.sources) {
        busy(slot, transfer.ends_at);
      }
    }
  }

  /// Pins `blocks`, which are resident, and brings them to the device, not before `at`.
  [[nodiscard]] TransferId Load(std::span<const LogicalBlock> blocks,
                                std::uint32_t owner,
                                Nanoseconds at);
  /// The time of the way is not given back.
  void CancelLoad(TransferId load);

  /// Forgets all victims. True: nothing is left, not even on its way.
  bool Clear();

  [[nodiscard]] bool IsUnderWay(TransferId id) const { return transfers_.contains(id); }
  /// None: over, or not submitted yet.
  [[nodiscard]] std::optional<Nanoseconds> EndOf(TransferId id) const;
  [[nodiscard]] std::optional<Nanoseconds> NextEnd() const;
  /// The next transfer that has ended `at` the latest; of those that end together stores first.
  [[nodiscard]] std::optional<Done> Complete(Nanoseconds at);

  [[nodiscard]] std::vector<Change> TakeChanges() { return std::exchange(changes_, {}); }
  /// Resident ones, sorted. For tests.
  [[nodiscard]] std::vector<BlockHash> KnownBlocks() const;

  /// Empty if all is consistent. For tests.
  [[nodiscard]] std::string CheckConsistency() const;

 private:
  struct Entry {
    TransferId store = 0;  ///< not 0: on its way here
    std::uint32_t pins = 0;
    std::uint64_t used = 0;  ///< in order_, when it may be a victim
    std::optional<BlockHash> parent;
    std::uint64_t position = 0;
    TokensHash tokens_hash{};
    std::vector<std::uint32_t> tokens;  ///< until they are told
  };
  struct Transfer {
    bool load = false;
    std::uint32_t owner = 0;
    std::vector<BlockHash> blocks;
    std::vector<std::uint32_t> sources;
    bool queued = false;
    Nanoseconds ends_at{0};
  };
  struct Way {
    double ns_per_block = 0.0;
    Nanoseconds free_at{0};
  };
  struct End {
    Nanoseconds at;
    bool load;
    TransferId id;
    friend auto operator<=>(const End&, const End&) = default;
  };
  using Order = std::set<std::pair<std::uint64_t, BlockHash>>;

  void Queue(TransferId id, Transfer& transfer, Way& way, Nanoseconds at);
  void Unpin(const std::vector<BlockHash>& blocks);
  void Offer(BlockHash block, Entry& entry, std::uint64_t moment);
  void Withdraw(BlockHash block, const Entry& entry);
  [[nodiscard]] std::vector<BlockHash> Victims(std::uint64_t count,
                                               std::span<const LogicalBlock> spared) const;
  void TellStored(const std::vector<BlockHash>& blocks);

  const Options options_;
  Way to_host_;
  Way to_device_;
  std::unordered_map<BlockHash, Entry> entries_;
  Order order_;
  std::uint64_t moment_ = 0;
  std::unordered_map<TransferId, Transfer> transfers_;
  std::vector<TransferId> prepared_;
  std::set<End> ends_;
  TransferId latest_ = 0;
  std::vector<Change> changes_;
};

}  // namespace understudy::mocker
