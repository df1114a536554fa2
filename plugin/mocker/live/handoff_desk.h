// Which requests of a host's ranks belong to hand-offs, and what was asked about them too early.
#pragma once

#include "plugin/mocker/handoff/command.h"
#include "understudy/base/ids.h"
#include "understudy/base/result.h"
#include "understudy/engine/handoff_types.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace understudy::mocker {

/// Commands of one rank that wait for the end of its pass; beyond it they are refused.
inline constexpr std::size_t kParkedCommandsMax = 65536;

/// Belongs to one engine thread.
class HandoffDesk {
 public:
  enum class End : std::uint8_t { kSource, kDestination };
  struct Entry {
    End end = End::kSource;
    engine::HandoffId handoff;
    bool reached = false;    ///< held, or reserved
    bool forgotten = false;  ///< a source that is not to be held when it is done
  };

  /// Errors: the id is in use at that end, with the reference's text.
  [[nodiscard]] Status Add(RankIndex rank, End end, engine::HandoffId handoff, RequestId request);
  [[nodiscard]] std::optional<RequestId> Find(RankIndex rank,
                                              End end,
                                              engine::HandoffId handoff) const;
  /// Null: no hand-off's, or over.
  [[nodiscard]] Entry* Of(RankIndex rank, RequestId request);
  /// The id may be used again; the request goes on, and what it holds is freed at its end.
  void Forget(RankIndex rank, RequestId request);
  void Remove(RankIndex rank, RequestId request);

  [[nodiscard]] bool Parks(RankIndex rank) const { return parked_.contains(rank); }
  /// False: the rank has its maximum.
  [[nodiscard]] bool Park(std::unique_ptr<handoff::Command>& command);
  [[nodiscard]] std::vector<std::unique_ptr<handoff::Command>> TakeParked(RankIndex rank);

  [[nodiscard]] std::size_t RequestsOf(RankIndex rank) const;
  [[nodiscard]] bool empty() const { return by_request_.empty() && parked_.empty(); }
  [[nodiscard]] std::size_t size() const { return by_request_.size(); }

 private:
  struct IdKey {
    RankIndex rank{};
    End end = End::kSource;
    engine::HandoffId handoff;
    friend bool operator==(const IdKey&, const IdKey&) = default;
  };
  struct IdHash {
    std::size_t operator()(const IdKey& key) const {
      return std::hash<engine::HandoffId>()(key.handoff) + std::size_t{2} * Value(key.rank) +
             (key.end == End::kSource ? 0U : 1U);
    }
  };
  struct RequestKey {
    RankIndex rank{};
    RequestId request{};
    friend bool operator==(const RequestKey&, const RequestKey&) = default;
  };
  struct RequestHash {
    std::size_t operator()(const RequestKey& key) const {
      return Value(key.request) * 0x9E3779B97F4A7C15U + Value(key.rank);
    }
  };

  std::unordered_map<IdKey, RequestId, IdHash> by_id_;
  std::unordered_map<RequestKey, Entry, RequestHash> by_request_;
  std::unordered_map<RankIndex, std::vector<std::unique_ptr<handoff::Command>>> parked_;
};

}  // namespace understudy::mocker
