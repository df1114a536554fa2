// The open response streams of the process: slots with generations, so that a late engine output
// finds nothing.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/base/ids.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/response_stream.h"
#include "worker/metrics/metrics.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace understudy::worker {

struct OpenStream {
  enum class State : std::uint8_t {
    kFree,
    kRunning,    ///< the engine owes output
    kFinishing,  ///< all was said, the connection drains
  };
  State state = State::kFree;
  bool dirty = false;       ///< appended since the last flush
  bool timed = false;       ///< its times go into the native metrics
  bool hands_over = false;  ///< takes part in a hand-off
  bool answered = false;    ///< all its tokens are out, its end is held back
  transport::PayloadCodec codec = transport::PayloadCodec::kJson;
  std::uint32_t slot = 0, generation = 0;
  std::uint32_t worker = 0;
  RankIndex rank{};
  std::uint32_t prompt_tokens = 0, tokens_sent = 0, output_tokens_max = 0;
  std::optional<std::uint32_t> cached_tokens;  ///< of its first admission
  std::uint64_t response_bytes = 0;            ///< bodies of data frames
  std::uint64_t appended_bytes = 0;            ///< everything given to `response`
  TimePoint started{};
  std::optional<TimePoint> last_token{};  ///< when tokens were handed over last
  std::uint32_t unrecorded_tokens = 0;    ///< since then
  std::string context_id;
  std::unique_ptr<transport::ResponseStream> response;
};

class RequestTable {
 public:
  explicit RequestTable(std::size_t streams_max) : streams_max_(streams_max) {}

  [[nodiscard]] bool full() const { return open_ >= streams_max_; }
  /// Each worker of the process has ids of its own: a request may run in two of them at once.
  [[nodiscard]] bool Holds(const std::string& context_id, std::uint32_t worker = 0) const {
    return ids_.contains({worker, context_id});
  }

  /// A running stream of `worker` under `context_id` (not held yet, table not full).
  OpenStream& Open(std::string context_id, std::uint32_t worker = 0);
  [[nodiscard]] static RequestId IdOf(const OpenStream& stream);
  /// A running stream; nullptr: the request has ended, or never was.
  [[nodiscard]] OpenStream* Find(RequestId id);
  /// The same, finishing streams too.
  [[nodiscard]] OpenStream* FindOpen(RequestId id);
  /// kRunning -> kFinishing: the context id may be used again.
  void Finishing(OpenStream& stream);
  void Close(OpenStream& stream);

  [[nodiscard]] std::size_t running() const { return ids_.size(); }
  /// Of one worker.
  [[nodiscard]] std::size_t running(std::uint32_t worker) const {
    return worker < running_of_.size() ? running_of_[worker] : 0;
  }
  [[nodiscard]] std::size_t open() const { return open_; }
  template <class F>
  void ForEach(F&& visit) {
    for (auto& stream : slots_) {
      if (stream.state != OpenStream::State::kFree) {
        visit(stream);
      }
    }
  }

 private:
  struct Key {
    std::uint32_t worker = 0;
    std::string id;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::string>{}(key.id) + key.worker;
    }
  };

  const std::size_t streams_max_;
  std::deque<OpenStream> slots_;  // addresses stay
  std::vector<std::uint32_t> free_;
  void StopRunning(const OpenStream& stream);

  std::unordered_set<Key, KeyHash> ids_;
  std::vector<std::size_t> running_of_;  ///< by worker
  std::size_t open_ = 0;
};

}  // namespace understudy::worker
