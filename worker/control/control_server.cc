#include "worker/control/control_server.h"

#include <algorithm>
#include <utility>

namespace understudy::worker {
namespace {

using transport::ControlCommand;
using transport::ControlItem;
using transport::ControlOp;
using transport::ControlState;

constexpr const char* kShuttingDown = "the worker is shutting down";
constexpr const char* kNoAnswer = "the engine is not running";

bool IsHandoff(ControlOp op) {
  return op >= ControlOp::kRegisterHandoff;
}

}  // namespace

/// A `stats` answer that goes on.
struct ControlServer::StatsStream {
  Id stream = 0;
  std::uint32_t worker = 0, count = 0;
  RankIndex first{};
  std::optional<Nanoseconds> interval;
  std::unique_ptr<transport::Timer> timer;
  bool begun = false;
};

ControlServer::ControlServer(transport::Loop& loop,
                             Ingress& ingress,
                             engine::Engine& engine,
                             ControlStreams& streams,
                             ServingSwitch& serving,
                             HandoffOperations* handoffs,
                             ControlMetrics& metrics,
                             Options options)
    : loop_(loop),
      ingress_(ingress),
      engine_(engine),
      streams_(streams),
      serving_(serving),
      handoffs_(handoffs),
      metrics_(metrics),
      options_(std::move(options)),
      drain_poll_(loop.NewTimer()) {}

void ControlServer::Add(const std::string& subject, Kind kind, std::uint32_t worker) {
  ingress_.Add(subject, *this, static_cast<std::uint32_t>(targets_.size()), nullptr);
  targets_.push_back({kind, worker});
}

void ControlServer::Serve(const IncomingRequest& request) {
  const Id stream = streams_.Open(request);
  if (stream == 0) {
    return;
  }
  const auto& control = request.control;
  if (control.unknown_codec) {
    streams_.Refuse(
        stream,
        {Errc::kUnsupported,
         "unknown payload_codec '" + *control.unknown_codec + "' (allowed: json, msgpack)"});
    return;
  }
  const Target target = targets_[request.target];
  if (target.kind == Kind::kClearKvBlocks) {
    metrics_.Requested(ControlOp::kClearKvBlocks);
    ServePlainClear(stream, target.worker);
    return;
  }
  auto command = transport::DecodeControlCommand(control.codec, request.body, options_.limits);
  if (!command) {
    streams_.Refuse(stream, command.error());
    return;
  }
  metrics_.Requested(command->op);
  if (const auto fits = Check(stream, *command); !fits) {
    streams_.Refuse(stream, fits.error());
    return;
  }
  Run(stream, target.worker, std::move(*command));
}

Status ControlServer::Check(Id stream, const ControlCommand& command) {
  if (command.rank && *command.rank >= options_.dp_size) {
    return Fail(Errc::kMalformed,
                "rank " + std::to_string(*command.rank) + " is out of bounds for " +
                    std::to_string(options_.dp_size) + " ranks");
  }
  const bool brings_work = command.op == ControlOp::kRegisterHandoff ||
                           command.op == ControlOp::kSubmitPrefill ||
                           command.op == ControlOp::kReserveDestination;
  if (brings_work && stopping_) {
    return Fail(Errc::kUnavailable, kShuttingDown);
  }
  const bool stays = brings_work || command.interval_ms || command.wait;
  if (stays && !streams_.Stay(stream)) {
    return Fail(
        Errc::kOverloaded,
        std::to_string(ControlStreams::kLongStreamsMax) + " answers that go on are open already");
  }
  return {};
}

void ControlServer::Run(Id stream, std::uint32_t worker, ControlCommand command) {
  if (IsHandoff(command.op)) {
    if (handoffs_ == nullptr) {
      streams_.Refuse(stream, {Errc::kUnsupported, "this engine has no hand-offs"});
      return;
    }
    command.rank = command.rank.value_or(0);
    const RankIndex rank = FirstRank(worker, command);
    handoffs_->Serve(stream, rank, std::move(command));
    return;
  }
  switch (command.op) {
    case ControlOp::kStats:
      ServeStats(stream, worker, command);
      break;
    case ControlOp::kClearKvBlocks:
      ServeClear(stream, worker, command);
      break;
    default:
      ServeSwitch(stream, worker, command);
      break;
  }
}

RankIndex ControlServer::FirstRank(std::uint32_t worker, const ControlCommand& command) const {
  return RankIndex{worker * options_.dp_size + command.rank.value_or(0)};
}

ControlItem ControlServer::StateOf(std::uint32_t worker) const {
  ControlItem item;
  item.kind = ControlItem::Kind::kState;
  item.requests = options_.running(worker);
  item.state = serving_.serving(worker) ? ControlState::kServing
               : item.requests > 0      ? ControlState::kDraining
                                        : ControlState::kDrained;
  return item;
}

// ---- stats ----

void ControlServer::ServeStats(Id stream, std::uint32_t worker, const ControlCommand& command) {
  auto stats = std::make_shared<StatsStream>();
  stats->stream = stream;
  stats->worker = worker;
  stats->first = FirstRank(worker, command);
  stats->count = RankCount(command);
  if (command.interval_ms) {
    stats->interval = std::chrono::milliseconds(*command.interval_ms);
    stats->timer = loop_.NewTimer();
    // Keeps it alive; the timer's own tasks only watch.
    streams_.OnGone(stream, [stats] { stats->timer->Cancel(); });
  }
  ReadStats(stats);
}

void ControlServer::ReadStats(const std::shared_ptr<StatsStream>& stats) {
  engine_.ReadRanks(
      stats->first, stats->count, [this, stats, alive = alive_, &loop = loop_](auto ranks) mutable {
        loop.Post([this, stats = std::move(stats), alive, ranks = std::move(ranks)] {
          if (*alive) {
            SendStats(stats, ranks);
          }
        });
      });
}

void ControlServer::SendStats(const std::shared_ptr<StatsStream>& stats,
                              const std::vector<engine::RankStatus>& ranks) {
  ControlItem item = StateOf(stats->worker);
  item.kind = ControlItem::Kind::kStats;
  for (const auto& rank : ranks) {
    auto& out = item.ranks.emplace_back();
    out.rank = Value(rank.rank) - stats->worker * options_.dp_size;
    out.requests_running = rank.requests_running;
    out.requests_waiting = rank.requests_waiting;
    out.blocks_used = rank.blocks_used;
    out.blocks_cached = rank.blocks_cached;
    out.blocks_total = rank.blocks_total;
    out.handoffs = rank.handoffs;
    out.sessions = handoffs_ != nullptr ? handoffs_->RegisteredAt(rank.rank) : 0;
  }
  if (!stats->interval) {
    streams_.Append(stats->stream, item);
    streams_.Finish(stats->stream);
    return;
  }
  if (!std::exchange(stats->begun, true) || streams_.HasRoom(stats->stream)) {
    streams_.Send(stats->stream, item);
  }
  stats->timer->After(*stats->interval, [this, watched = std::weak_ptr(stats)] {
    if (const auto again = watched.lock()) {
      ReadStats(again);
    }
  });
}

// ---- clear_kv_blocks ----

void ControlServer::ClearRanks(RankIndex first,
                               std::uint32_t count,
                               engine::InUse in_use,
                               std::function<void(const std::vector<engine::CacheCleared>&)> done) {
  engine_.ClearCache(
      first,
      count,
      in_use,
      [this, done = std::move(done), alive = alive_, &loop = loop_](auto ranks) mutable {
        loop.Post([this, done = std::move(done), alive, ranks = std::move(ranks)] {
          if (!*alive) {
            return;
          }
          for (const auto& rank : ranks) {
            metrics_.BlocksCleared(rank.blocks_cleared);
          }
          done(ranks);
        });
      });
}

void ControlServer::ServeClear(Id stream, std::uint32_t worker, const ControlCommand& command) {
  const RankIndex first = FirstRank(worker, command);
  const std::uint32_t before = worker * options_.dp_size;
  ClearRanks(first,
             RankCount(command),
             command.refuse_in_use ? engine::InUse::kRefuse : engine::InUse::kKeep,
             [this, stream, before](const auto& ranks) {
               if (ranks.empty()) {
                 streams_.Refuse(stream, {Errc::kUnavailable, kNoAnswer});
                 return;
               }
               ControlItem item;
               item.kind = ControlItem::Kind::kCleared;
               for (const auto& rank : ranks) {
                 auto& out = item.ranks.emplace_back();
                 out.rank = Value(rank.rank) - before;
                 out.blocks_cleared = rank.blocks_cleared;
                 out.blocks_in_use = rank.blocks_in_use;
                 out.refused = rank.refused;
               }
               streams_.Append(stream, item);
               streams_.Finish(stream);
             });
}

void ControlServer::ServePlainClear(Id stream, std::uint32_t worker) {
  ClearRanks(FirstRank(worker, {}),
             options_.dp_size,
             engine::InUse::kRefuse,
             [this, stream](const auto& ranks) {
               const bool refused = std::any_of(
                   ranks.begin(), ranks.end(), [](const auto& rank) { return rank.refused; });
               const bool all = ranks.size() == options_.dp_size;
               streams_.SendStatus(stream,
                                   all && !refused,
                                   !all      ? kNoAnswer
                                   : refused ? options_.clear_refusal
                                             : "KV cache cleared");
             });
}

// ---- drain, resume ----

void ControlServer::ServeSwitch(Id stream, std::uint32_t worker, const ControlCommand& command) {
  auto done = [this, stream, worker, wait = command.wait, alive = alive_](Result<bool> changed) {
    if (!*alive) {
      return;
    }
    if (!changed) {
      streams_.Refuse(stream, changed.error());
      return;
    }
    ControlItem item = StateOf(worker);
    item.changed = *changed;
    streams_.Send(stream, item);
    if (wait && item.state == ControlState::kDraining) {
      AwaitDrained(stream, worker);
    } else {
      streams_.Finish(stream);
    }
  };
  if (command.op == ControlOp::kDrain) {
    serving_.Drain(worker, std::move(done));
  } else {
    serving_.Resume(worker, std::move(done));
  }
}

void ControlServer::AwaitDrained(Id stream, std::uint32_t worker) {
  waiters_.push_back({stream, worker});
  streams_.OnGone(stream, [this, stream] {
    std::erase_if(waiters_, [&](const DrainWaiter& one) { return one.stream == stream; });
  });
  drain_poll_->After(kDrainPoll, [this] { PollDrained(); });
}

void ControlServer::PollDrained() {
  std::erase_if(waiters_, [this](const DrainWaiter& waiter) {
    const ControlItem item = StateOf(waiter.worker);
    if (item.state == ControlState::kDraining) {
      return false;
    }
    streams_.Append(waiter.stream, item);
    streams_.Finish(waiter.stream);
    return true;
  });
  if (!waiters_.empty()) {
    drain_poll_->After(kDrainPoll, [this] { PollDrained(); });
  }
}

}  // namespace understudy::worker
