// Hand-offs that controllers registered: who may command which generation.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff.h"
#include "understudy/transport/loop.h"
#include "worker/control/control_streams.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

namespace understudy::worker {

/// On the loop's thread. A registration lasts as long as its stream; its latest generation can
/// still be commanded for a while, so that another controller may free what a dead one left.
class Registrations {
 public:
  /// How long the blocks of a source stay held for a registration whose stream is gone.
  static constexpr Nanoseconds kOrphanWait = std::chrono::seconds(60);
  /// Ids with a generation that can be commanded, registered ones and others.
  static constexpr std::size_t kKnownMax = 65'536;

  struct Key {
    RankIndex rank{};
    engine::HandoffId handoff;
    friend bool operator==(const Key&, const Key&) = default;
  };

  /// `busy` says whether a request of the hand-off still has its stream.
  Registrations(transport::Loop& loop,
                engine::Handoffs& handoffs,
                ControlStreams& streams,
                std::function<bool(const Key&)> busy,
                std::function<void(std::size_t)> on_count,
                Nanoseconds orphan_wait = kOrphanWait)
      : loop_(loop),
        handoffs_(handoffs),
        streams_(streams),
        busy_(std::move(busy)),
        on_count_(std::move(on_count)),
        orphan_wait_(orphan_wait) {}
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  /// Answers on `stream` with the generation and the events, or refuses it.
  void Register(ControlStreams::Id stream, const Key& key);
  /// The control of a generation. Errors with the live boundary's texts: it is not the latest, or
  /// `needs_registration` and its stream is gone.
  [[nodiscard]] Result<std::shared_ptr<engine::HandoffControl>> Find(const Key& key,
                                                                     std::uint64_t generation,
                                                                     bool needs_registration) const;
  [[nodiscard]] std::size_t RegisteredAt(RankIndex rank) const;

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<engine::HandoffId>()(key.handoff) + Value(key.rank);
    }
  };
  struct Known {
    std::uint64_t generation = 0;
    ControlStreams::Id stream = 0;
    std::shared_ptr<engine::HandoffControl> control;
    std::unique_ptr<engine::HandoffEvents> events;  ///< null: its stream is gone
    std::unique_ptr<transport::Timer> orphan;
    std::unique_ptr<engine::HandoffCall> cleanup;
  };
  [[nodiscard]] Known* Current(const Key& key, std::uint64_t generation);
  void Receive(const Key& key, std::uint64_t generation);
  void OnEvent(const Key& key,
               std::uint64_t generation,
               const std::optional<engine::HandoffEvent>& event);
  void Unregister(const Key& key, std::uint64_t generation);
  void CleanUpLater(const Key& key, std::uint64_t generation);
  void CleanUp(const Key& key, std::uint64_t generation);
  void Count(RankIndex rank, bool more);

  transport::Loop& loop_;
  engine::Handoffs& handoffs_;
  ControlStreams& streams_;
  std::function<bool(const Key&)> busy_;
  std::function<void(std::size_t)> on_count_;
  const Nanoseconds orphan_wait_;
  std::unordered_map<Key, Known, KeyHash> known_;
  std::unordered_map<RankIndex, std::size_t> registered_;
  std::size_t registered_total_ = 0;
  std::uint64_t last_generation_ = 0;
};

}  // namespace understudy::worker
