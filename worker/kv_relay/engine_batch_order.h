// The order of an engine's batches: gaps, repairs from the engine's replay socket, restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace understudy::worker {

/// Live messages of one engine come with rising sequence numbers from 0; some may be missing. This
/// hands every batch on once and in order: a gap is asked for from the replay socket, and what
/// comes live meanwhile waits. What cannot be repaired is counted exactly. Pure.
///
/// A restart of the engine shows when a live number does not rise, or, while a gap is repaired,
/// when the batch before the gap is not the one that was seen (it is asked for again for this
/// reason). Without a replay socket one kind stays unseen: an engine that came back, unnoticed,
/// beyond the number where it was lost; it looks like a gap.
class EngineBatchOrder {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnBatch(std::string_view payload, bool replayed) = 0;
    /// Before the batch that follows the hole.
    virtual void OnLost(std::uint64_t batches) = 0;
    /// All that was handed on is void; numbers begin at 0 again.
    virtual void OnRestart() = 0;
    /// Asks for everything from `start` on; false: it cannot be asked for.
    virtual bool RequestReplay(std::uint64_t start) = 0;
    /// What may still come from the last request is not wanted.
    virtual void AbandonReplay() = 0;
  };

  struct Limits {
    std::size_t batches_max = 65536;
    std::size_t bytes_max = 64U << 20;
  };
  /// A replayed number this far beyond the latest live one is nonsense.
  static constexpr std::uint64_t kAheadMax = 1U << 20;

  struct Counters {
    std::uint64_t applied = 0;
    std::uint64_t replayed = 0;    ///< of them, from the replay socket
    std::uint64_t lost = 0;        ///< never seen
    std::uint64_t duplicates = 0;  ///< seen again
    std::uint64_t gaps = 0;
    std::uint64_t restarts = 0;
    std::uint64_t voided = 0;     ///< waited for a repair when the engine restarted
    std::uint64_t overflows = 0;  ///< repairs given up because too much was waiting
  };

  EngineBatchOrder(Sink& sink, const Limits& limits) : sink_(sink), limits_(limits) {}

  /// Asks for all that the engine still has, before its first batch comes: it may have been at work
  /// for long, and be silent now. Before any other call.
  void Begin() { is_replaying_ = sink_.RequestReplay(0); }
  void Live(std::uint64_t sequence, std::string_view payload);
  /// False: the number makes no sense.
  bool Replayed(std::uint64_t sequence, std::string_view payload);
  /// The end mark came, or nothing comes any more: what is still missing is lost.
  void ReplayEnded();

  [[nodiscard]] bool is_replaying() const { return is_replaying_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Waiting {
    std::uint64_t sequence = 0;
    std::string payload;
  };
  void Apply(std::uint64_t sequence, std::string_view payload, bool replayed);
  void Lose(std::uint64_t until);
  void Restart();
  void Keep(std::uint64_t sequence, std::string_view payload);
  void Pop();
  /// Hands on what waits, up to the next hole.
  void Drain();
  /// Repairs or writes off holes until nothing waits or a replay is under way.
  void Settle();

  Sink& sink_;
  Limits limits_;
  std::uint64_t expected_ = 0;
  std::uint64_t last_fingerprint_ = 0;  // of batch expected_ - 1, when it was applied
  bool has_fingerprint_ = false;
  bool must_match_ = false;  // the first reply is to be the batch of last_fingerprint_
  std::optional<std::uint64_t> last_live_;
  bool is_replaying_ = false;
  std::deque<Waiting> waiting_;  // live, rising, all beyond expected_
  std::size_t waiting_bytes_ = 0;
  Counters counters_;
};

}  // namespace understudy::worker
