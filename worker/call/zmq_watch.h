// Follows all publishers of a namespace on a ZMQ event plane, at brokers if there are some.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"
#include "worker/event_side/zmq_brokers.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace understudy::worker {

/// The newest messages, to know them again when another broker brings them.
class SeenMessages {
 public:
  static constexpr std::size_t kKeptMax = 100'000;
  /// False: it was there.
  bool Add(std::uint64_t publisher_id, std::uint64_t sequence);

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  std::set<Key> known_;
  std::deque<Key> order_;
};

/// Looks for event channels again and again, since publishers and brokers come and go. On the
/// loop's thread.
class ZmqWatch {
 public:
  static constexpr Nanoseconds kListEvery = std::chrono::milliseconds(500);

  /// Gets the topic and the envelope of each message.
  using Handler = std::function<void(std::string_view topic, std::string_view envelope)>;
  ZmqWatch(transport::Loop& loop,
           transport::Discovery& discovery,
           std::string ns,
           ZmqBrokers brokers,
           Handler handler);

  /// `listed` is called after the first look, with the number of publishers, or brokers, found.
  [[nodiscard]] Status Start(std::function<void(Result<std::size_t>)> listed);

 private:
  void List();
  void Take(transport::ZmqFrames frames);
  [[nodiscard]] bool IsElsewhere(std::string_view key) const;
  [[nodiscard]] std::set<std::string> EndpointsIn(
      const std::vector<transport::Record>& records) const;
  void Follow(std::set<std::string> found);

  transport::Loop& loop_;
  transport::Discovery& discovery_;
  std::string ns_;
  std::string subjects_;  ///< of the namespace begin with it
  ZmqBrokers brokers_;
  Handler handler_;
  SeenMessages seen_;
  std::function<void(Result<std::size_t>)> listed_;
  std::set<std::string> followed_;  ///< endpoints
  std::unique_ptr<transport::Timer> timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< weak in answers of discovery
  std::unique_ptr<transport::ZmqSubscriber> subscriber_;  ///< last: its handler uses the others
};

}  // namespace understudy::worker
