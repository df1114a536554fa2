// The events of one engine (one data-parallel rank), from its PUB socket to router events.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/router_event.h"
#include "understudy/transport/zmq.h"
#include "worker/kv_relay/converter.h"
#include "worker/kv_relay/engine_batch_order.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// SUB with reconnect; DEALER for repairs when the engine has a replay socket. All members on the
/// loop's thread; nothing blocks. Not to be destroyed from inside the handler. Source:
/// events.md 1.1, 1.6, 1.8.
class EngineSubscriber final : private EngineBatchOrder::Sink {
 public:
  struct Options {
    std::string endpoint;         ///< tcp://host:port, base port + rank
    std::string topic;            ///< prefix; the engines' default is the empty one
    std::string replay_endpoint;  ///< empty: gaps cannot be repaired, only counted
    /// Ask for all that the engine still has, again and again until it is heard of: it may be older
    /// than this, and silent.
    bool replay_from_start = false;
    KvEventConverter::Options converter;
    transport::KvBatchLimits batch_limits;
    transport::ZmqLimits zmq_limits;
    EngineBatchOrder::Limits order_limits;
    /// A repair without any reply for so long is given up.
    std::chrono::milliseconds replay_silence_max{3000};
    /// Nothing is asked for so long after one was given up: each try holds back what comes live.
    std::chrono::milliseconds replay_pause{30000};
  };
  struct Counters {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bad_frames = 0;     ///< wrong count of frames, or no 8 bytes of sequence
    std::uint64_t bad_batches = 0;    ///< payload that is no batch
    std::uint64_t foreign_ranks = 0;  ///< batches that name another rank than this one
    std::uint64_t replay_requests = 0;
    std::uint64_t replay_silences = 0;  ///< given up
    std::uint64_t bad_replies = 0;
  };
  /// What one batch, or a restart of the engine (a clear), told about; never empty.
  using Handler = std::function<void(std::vector<transport::RouterEvent>)>;

  /// kInvalidConfig: an endpoint that libzmq refuses; kUnavailable: no sockets left.
  [[nodiscard]] static Result<std::unique_ptr<EngineSubscriber>> New(
      transport::Loop& loop,
      std::shared_ptr<transport::ZmqContext> context,
      Options options,
      Handler handler);
  ~EngineSubscriber() override;
  EngineSubscriber(const EngineSubscriber&) = delete;
  EngineSubscriber& operator=(const EngineSubscriber&) = delete;

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const EngineBatchOrder::Counters& order() const { return order_.counters(); }
  [[nodiscard]] const KvConversionCounters& conversion() const { return converter_.counters(); }

 private:
  /// A degraded state: one warning when it begins, one line when so many good ones in a row ended
  /// it.
  static constexpr std::uint64_t kGoodOnesThatEndIt = 1024;
  struct Episode {
    std::string_view what;
    std::uint64_t count = 0;
    std::uint64_t good_since = 0;
  };

  EngineSubscriber(transport::Loop& loop,
                   std::shared_ptr<transport::ZmqContext> context,
                   Options options,
                   Handler handler);
  Status Open();
  Status OpenDealer();
  void OnMessage(transport::ZmqFrames frames);
  void OnReply(transport::ZmqFrames frames);
  void OnReplaySilence();
  void OnFirstSilence();
  void Bad(Episode& episode, std::uint64_t count, const std::string& why);
  void Good(Episode& episode);

  void OnBatch(std::string_view payload, bool replayed) override;
  void OnLost(std::uint64_t batches) override;
  void OnRestart() override;
  bool RequestReplay(std::uint64_t start) override;
  void AbandonReplay() override;

  transport::Loop& loop_;
  std::shared_ptr<transport::ZmqContext> context_;
  Options options_;
  Handler handler_;
  KvEventConverter converter_;
  EngineBatchOrder order_;
  Counters counters_;
  Episode frames_episode_{"kv event messages with wrong frames"};
  Episode batch_episode_{"kv event batches that cannot be read"};
  Episode event_episode_{"kv events that cannot be read"};
  Episode lost_episode_{"kv event batches that never came"};
  bool replay_paused_ = false;
  bool unheard_ = true;  // nothing has come from the engine yet, on either socket
  std::unique_ptr<transport::Timer> silence_timer_;
  std::unique_ptr<transport::Timer> pause_timer_;
  std::unique_ptr<transport::ZmqDealer> dealer_;
  std::unique_ptr<transport::ZmqSubscriber> subscriber_;  // last: its handler uses all above
};

}  // namespace understudy::worker
