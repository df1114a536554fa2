// The frontend's side of the request and response planes, for tests: sends requests over NATS and
// records every frame of every response connection.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/nats.h"
#include "understudy/transport/response_stream.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::fakes {

/// One request. What is not set is filled in as a frontend would.
struct CallSpec {
  std::string subject;  ///< NATS subject of the worker
  transport::PayloadCodec codec = transport::PayloadCodec::kJson;
  transport::PreprocessedRequest request;
  std::string id;                                   ///< empty = a fresh one
  std::optional<std::string> body;                  ///< these bytes instead of `request`
  std::optional<std::string> payload_codec;         ///< this word instead of the codec's
  std::optional<std::string> address;               ///< instead of the frontend's own
  std::string transport = "tcp_server";             ///< connection_info.transport
  std::function<std::string(std::string)> reframe;  ///< last word on the whole payload
  bool answer_fin = true;                           ///< close when the sentinel has come
};

/// What is known about one request. Members may be called from the test's thread; waits end after
/// kLimit with false or nothing.
class Call {
 public:
  using Kind = transport::ResponseFrame::Kind;
  static constexpr std::chrono::seconds kLimit{60};

  [[nodiscard]] const std::string& id() const { return id_; }
  /// False when the message could not be given to NATS.
  [[nodiscard]] bool sent() const { return sent_; }
  [[nodiscard]] std::optional<std::string> WaitAck();
  [[nodiscard]] bool WaitTokens(std::size_t count);
  /// Until a frame of this kind has come.
  [[nodiscard]] bool WaitFrame(Kind kind);
  /// Until the response connection has ended, from whichever side.
  [[nodiscard]] bool WaitClosed();

  [[nodiscard]] std::vector<std::uint32_t> tokens() const;
  [[nodiscard]] std::vector<Kind> kinds() const;  ///< one per frame, in order
  [[nodiscard]] std::string error() const;        ///< text of the last error item or finish error
  [[nodiscard]] std::string error_bytes() const;  ///< body of that frame as it came
  [[nodiscard]] std::string finish_reason() const;
  /// Items that said that a decode worker can go on from here.
  [[nodiscard]] std::size_t disaggregated() const;
  [[nodiscard]] std::optional<transport::Usage> usage() const;  ///< of the last frame that had one
  [[nodiscard]] std::size_t connections() const;
  /// A frame that could not be read, or one token frame that held more or less than one token.
  [[nodiscard]] std::string problem() const;
  /// Handshake, prologue, `count` frames of one token, one finish "length", complete_final,
  /// sentinel, and nothing else; otherwise the text says what is wrong.
  [[nodiscard]] std::string WhyNotWhole(std::size_t count) const;
  /// An empty ack; handshake, prologue, one error item of type InvalidArgument, complete_final,
  /// sentinel. Waits for the ack.
  [[nodiscard]] std::string WhyNotRefusedInBand();

 private:
  friend class FakeFrontend;
  struct Shared {  // of all calls of a frontend
    std::mutex mutex;
    std::condition_variable changed;
  };
  Call(std::shared_ptr<Shared> shared, std::string id, const CallSpec& spec);
  bool Wait(const std::function<bool()>& condition);
  void OnFrame(const transport::TwoPartView& frame);
  [[nodiscard]] std::string ShapeLocked() const;

  const std::shared_ptr<Shared> shared_;
  const std::string id_;
  const transport::PayloadCodec codec_;
  const bool answer_fin_;
  // below the mutex
  bool sent_ = true, closed_ = false;
  std::optional<std::string> ack_;
  std::vector<std::uint32_t> tokens_;
  std::vector<Kind> kinds_;
  std::size_t finishes_ = 0, connections_ = 0, disaggregated_ = 0;
  std::string error_, error_bytes_, finish_reason_, problem_;
  std::optional<transport::Usage> usage_;
  std::uint64_t connection_ = 0;  // 0 = none open
};
using CallPtr = std::shared_ptr<Call>;

/// Members block and belong to the test's thread.
class FakeFrontend {
 public:
  static Result<std::unique_ptr<FakeFrontend>> New(const std::string& nats_url);
  ~FakeFrontend();
  FakeFrontend(const FakeFrontend&) = delete;
  FakeFrontend& operator=(const FakeFrontend&) = delete;

  [[nodiscard]] CallPtr Send(const CallSpec& spec);
  void Control(Call& call, transport::StreamControl control);
  void SendRaw(Call& call, std::string_view bytes);
  void Close(Call& call);  ///< FIN

  /// A request outside the planes ($SRV): the first answer, or nothing.
  [[nodiscard]] std::optional<std::string> Ask(const std::string& subject);
  /// From now on every kv_metrics message of `ns` is recorded.
  void WatchLoad(const std::string& ns);
  [[nodiscard]] std::vector<transport::ActiveLoad> loads();
  /// Until the recorded messages satisfy `condition`.
  [[nodiscard]] bool WaitLoads(
      const std::function<bool(const std::vector<transport::ActiveLoad>&)>& condition);
  [[nodiscard]] bool WaitConnected();

 private:
  struct Connection {
    std::string bytes;
    CallPtr call;
  };
  FakeFrontend();
  void OnBytes(const transport::ResponseListener::Peer& peer);
  void AwaitReply(const std::string& reply, const CallPtr& call);
  [[nodiscard]] std::string PayloadOf(const CallSpec& spec, const std::string& id) const;
  CallPtr CallOf(const transport::TwoPartView& handshake);

  const std::shared_ptr<Call::Shared> shared_ = std::make_shared<Call::Shared>();
  std::unique_ptr<transport::NatsClient> nats_;
  std::unique_ptr<transport::ResponseListener> listener_;
  std::string inbox_, address_;
  std::map<std::string, CallPtr> by_subject_;
  std::map<std::string, std::optional<std::string>> answers_;
  std::map<std::uint64_t, Connection> connections_;
  std::vector<transport::ActiveLoad> loads_;
  std::uint64_t next_ = 0;
  LoopThread thread_;
};

}  // namespace understudy::fakes
