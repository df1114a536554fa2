// Follows all publishers of a namespace on a ZMQ event plane.
#pragma once

#include "understudy/base/result.h"
#include "understudy/transport/discovery.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/zmq.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// Looks for event channels again and again, since publishers come and go. On the loop's thread.
class ZmqWatch {
 public:
  static constexpr Nanoseconds kListEvery = std::chrono::milliseconds(500);

  /// Gets the topic and the envelope of each message.
  using Handler = std::function<void(std::string_view topic, std::string_view envelope)>;
  ZmqWatch(transport::Loop& loop, transport::Discovery& discovery, std::string ns, Handler handler);

  /// `listed` is called after the first look, with the number of publishers found.
  [[nodiscard]] Status Start(std::function<void(Result<std::size_t>)> listed);

 private:
  void List();
  void Follow(const std::vector<transport::Record>& records);

  transport::Loop& loop_;
  transport::Discovery& discovery_;
  std::string ns_;
  Handler handler_;
  std::function<void(Result<std::size_t>)> listed_;
  std::set<std::string> followed_;  ///< endpoints
  std::unique_ptr<transport::Timer> timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< weak in answers of discovery
  std::unique_ptr<transport::ZmqSubscriber> subscriber_;  ///< last: its handler uses the others
};

}  // namespace understudy::worker
