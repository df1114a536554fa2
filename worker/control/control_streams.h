// The open answers to controllers: who may have how many, and what happens when they do not read.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/result.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/response_stream.h"
#include "understudy/transport/worker_control.h"
#include "worker/metrics/control_metrics.h"
#include "worker/request_path/ingress.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace understudy::worker {

/// On the loop's thread.
class ControlStreams {
 public:
  /// In all; more are refused in their acknowledgement.
  static constexpr std::size_t kStreamsMax = 4096;
  /// Of these, those that stay until somebody ends them (events, statistics, requests): the others
  /// always find room. More are refused.
  static constexpr std::size_t kLongStreamsMax = 3584;
  /// Of one caller (the address that it wants to be called at).
  static constexpr std::size_t kStreamsPerCallerMax = 1024;
  /// How long a caller may take nothing of what is there.
  static constexpr Nanoseconds kUnreadWait = transport::ResponseStream::kUnreadWait;

  using Id = std::uint64_t;

  ControlStreams(transport::Loop& loop, Ingress& ingress, ControlMetrics& metrics)
      : loop_(loop), ingress_(ingress), metrics_(metrics) {}
  ControlStreams(const ControlStreams&) = delete;
  ControlStreams& operator=(const ControlStreams&) = delete;

  /// Acknowledges and dials. 0: refused in the acknowledgement.
  [[nodiscard]] Id Open(const IncomingRequest& request);
  /// It stays until somebody ends it. False: there are too many of those.
  [[nodiscard]] bool Stay(Id id);
  /// `gone` is called once when the caller ends it, or does not read, before Refuse or Finish.
  void OnGone(Id id, std::function<void()> gone);
  /// `room` is called whenever all that was flushed has been sent.
  void OnRoom(Id id, std::function<void()> room);

  // A stream that is gone takes these silently.
  void Append(Id id, const transport::ControlItem& item);
  void Flush(Id id);
  void Send(Id id, const transport::ControlItem& item) {
    Append(id, item);
    Flush(id);
  }
  void SendStatus(Id id, bool success, std::string_view message);
  /// An error item and the end; counted and logged.
  void Refuse(Id id, const Error& error);
  void Finish(Id id);

  /// The stream is there, and its caller has taken all there was.
  [[nodiscard]] bool HasRoom(Id id);
  [[nodiscard]] std::size_t size() const { return streams_.size(); }
  /// Without telling anybody.
  void CloseAll();

 private:
  struct Stream {
    std::unique_ptr<transport::ResponseStream> response;
    std::unique_ptr<transport::Timer> unread;
    std::optional<std::uint64_t> watched_at;  ///< bytes sent when `unread` was armed
    transport::PayloadCodec codec{};
    std::uint32_t entry = 0;
    std::string caller;
    std::uint64_t appended = 0;
    bool stays = false, finished = false;
    std::function<void()> gone, room;
  };
  /// Neither gone nor finished, or null.
  [[nodiscard]] Stream* Find(Id id);
  void Ended(Id id, const std::string& text);
  void Sent(Id id);
  void WatchReader(Id id, Stream& stream);
  void LeaveLong(Stream& stream);
  void CountStreams() { metrics_.OpenStreams(streams_.size()); }

  transport::Loop& loop_;
  Ingress& ingress_;
  ControlMetrics& metrics_;
  std::unordered_map<Id, Stream> streams_;
  std::unordered_map<std::string, std::size_t> by_caller_;
  std::size_t long_ = 0;
  Id last_ = 0;
};

}  // namespace understudy::worker
