// What other threads ask of an engine thread.
#pragma once

#include "plugin/mocker/handoff/command.h"
#include "plugin/mocker/live/gather.h"
#include "understudy/engine/types.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

namespace understudy::mocker {

struct CancelCommand {
  RequestId id{};
  RankIndex rank{};
};

/// Gathers the answers of all engine threads to one question.
class DumpCollector {
 public:
  void Add(std::string part) {
    {
      const std::lock_guard lock(mutex_);
      parts_.push_back(std::move(part));
    }
    added_.notify_one();
  }

  /// Waits until `count` parts are there, at most `limit`; returns those that are.
  [[nodiscard]] std::vector<std::string> Wait(std::size_t count, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, limit, [&] { return parts_.size() >= count; });
    return parts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::string> parts_;
};

struct DumpCommand {
  std::shared_ptr<DumpCollector> reply;  ///< shared: the asker may have given up waiting
};

struct RankRange {
  RankIndex first{};
  std::uint32_t count = 0;
  [[nodiscard]] bool Holds(RankIndex rank) const {
    return rank >= first && Value(rank) - Value(first) < count;
  }
};
struct ReadCommand {
  RankRange ranks;
  std::shared_ptr<Gather<engine::RankStatus>> reply;
};
struct ClearCommand {
  RankRange ranks;
  engine::InUse in_use = engine::InUse::kKeep;
  std::shared_ptr<Gather<engine::CacheCleared>> reply;
};

/// A hand-off's command is kept elsewhere: it is rare, and would make all the others larger.
using Command = std::variant<engine::Request,
                             CancelCommand,
                             DumpCommand,
                             ReadCommand,
                             ClearCommand,
                             std::unique_ptr<handoff::Command>>;

}  // namespace understudy::mocker
