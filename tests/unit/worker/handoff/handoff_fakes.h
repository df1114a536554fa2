// Both ends of hand-off sessions without sockets and without an engine.
#pragma once

#include "tests/fakes/fake_loop.h"
#include "tests/fakes/manual_clock.h"
#include "understudy/engine/handoff.h"
#include "understudy/transport/bootstrap.h"
#include "worker/handoff/session.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {

inline constexpr transport::BootstrapIdentity kIdentity{{0xAB, 1}, 7, {0xCD, 2}};
inline constexpr engine::HandoffId kHandoff{kIdentity.handoff_id};
inline constexpr const char* kHandoffName = "HandoffId(00000000-0000-00ab-0000-000000000001)";

/// What a test sees of a connection and does to it; lives on when the session drops its end.
struct Wire {
  std::vector<transport::BootstrapMessage> sent;
  transport::BootstrapConnection::Handlers handlers;
  bool started = false;
  bool closed = false;       ///< by our side
  bool peer_closed = false;  ///< before it was started
  bool stuck = false;        ///< nothing is ever written
  Status refusal;            ///< of the next messages
  std::vector<Task> unwritten;

  void Receive(transport::BootstrapMessage message) const {
    ASSERT_TRUE(started && !closed);
    const auto on_message = handlers.on_message;
    on_message(std::move(message));
  }
  void End(Status why) const {
    ASSERT_TRUE(started && !closed);
    const auto on_end = handlers.on_end;
    on_end(std::move(why));
  }
  /// Debug texts of what was sent.
  [[nodiscard]] std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const auto& message : sent) {
      texts.push_back(DebugText(message));
    }
    return texts;
  }
  [[nodiscard]] std::string Last() const { return sent.empty() ? "" : DebugText(sent.back()); }
};

class FakeConnection final : public transport::BootstrapConnection {
 public:
  FakeConnection(fakes::FakeLoop& loop,
                 std::shared_ptr<Wire> wire,
                 transport::BootstrapIdentity identity = kIdentity)
      : loop_(loop), wire_(std::move(wire)), identity_(identity) {}
  ~FakeConnection() override { wire_->closed = true; }
  FakeConnection(const FakeConnection&) = delete;
  FakeConnection& operator=(const FakeConnection&) = delete;

  [[nodiscard]] const transport::BootstrapIdentity& identity() const override { return identity_; }
  void Start(Handlers handlers) override {
    wire_->started = true;
    wire_->handlers = std::move(handlers);
  }
  [[nodiscard]] Status Send(const transport::BootstrapMessage& message, Task written) override {
    if (!wire_->refusal) {
      return wire_->refusal;
    }
    wire_->sent.push_back(message);
    if (written && wire_->stuck) {
      wire_->unwritten.push_back(std::move(written));
    } else if (written) {
      loop_.Post(std::move(written));
    }
    return {};
  }
  [[nodiscard]] bool PeerClosed() override { return wire_->peer_closed; }

 private:
  fakes::FakeLoop& loop_;
  std::shared_ptr<Wire> wire_;
  transport::BootstrapIdentity identity_;
};

/// An engine's side of one hand-off: it answers when the test says so.
struct Script {
  struct Asked {
    std::string what;
    engine::HandoffControl::Done done;
    bool heard = true;
  };
  std::vector<std::shared_ptr<Asked>> asked;
  std::function<void(std::optional<engine::HandoffEvent>)> next;
  std::deque<std::optional<engine::HandoffEvent>> events;
  bool registered = true;
  int requests = 0;  ///< that came with a call
  engine::HandoffId handoff = kHandoff;

  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& one : asked) {
      names.push_back(one->what);
    }
    return names;
  }
  void Answer(std::size_t place, Result<engine::HandoffOutcome> result) const {
    ASSERT_LT(place, asked.size());
    if (asked[place]->heard) {
      const auto done = asked[place]->done;
      done(std::move(result));
    }
  }
  void Happens(std::optional<engine::HandoffEvent> event) {
    if (next) {
      const auto taker = std::exchange(next, nullptr);
      taker(std::move(event));
    } else {
      events.push_back(std::move(event));
    }
  }
};

class FakeControl final : public engine::HandoffControl {
 public:
  explicit FakeControl(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  [[nodiscard]] engine::HandoffId handoff_id() const override { return script_->handoff; }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> SubmitPrefill(
      std::shared_ptr<engine::PreparedRequest> request, Done done) override {
    return Ask("submit", std::move(done), request != nullptr);
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ReserveDestination(
      std::shared_ptr<engine::PreparedRequest> request, Done done) override {
    return Ask("reserve", std::move(done), request != nullptr);
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ReleaseSource(Done done) override {
    return Ask("release", std::move(done), false);
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> CancelSource(Done done) override {
    return Ask("cancel source", std::move(done), false);
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> ActivateDestination(Done done) override {
    return Ask("activate", std::move(done), false);
  }
  [[nodiscard]] std::unique_ptr<engine::HandoffCall> CancelDestination(Done done) override {
    return Ask("cancel destination", std::move(done), false);
  }

 private:
  struct Call final : engine::HandoffCall {
    explicit Call(std::shared_ptr<Script::Asked> of) : asked(std::move(of)) {}
    ~Call() override { asked->heard = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    std::shared_ptr<Script::Asked> asked;
  };
  std::unique_ptr<engine::HandoffCall> Ask(const char* what, Done done, bool with_request) {
    auto asked = std::make_shared<Script::Asked>();
    asked->what = what;
    asked->done = std::move(done);
    script_->asked.push_back(asked);
    script_->requests += with_request ? 1 : 0;
    return std::make_unique<Call>(asked);
  }
  std::shared_ptr<Script> script_;
};

class FakeEvents final : public engine::HandoffEvents {
 public:
  explicit FakeEvents(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  ~FakeEvents() override {
    script_->registered = false;
    script_->next = nullptr;
  }
  FakeEvents(const FakeEvents&) = delete;
  FakeEvents& operator=(const FakeEvents&) = delete;
  void Receive(std::function<void(std::optional<engine::HandoffEvent>)> next) override {
    script_->next = std::move(next);
  }

 private:
  std::shared_ptr<Script> script_;
};

struct FakeRequest final : engine::PreparedRequest {};

inline HandoffRequest MakeHandoff(const std::shared_ptr<Script>& script) {
  HandoffRequest handoff;
  handoff.request = std::make_shared<FakeRequest>();
  handoff.registration = {std::make_shared<FakeControl>(script),
                          std::make_unique<FakeEvents>(script)};
  return handoff;
}

inline engine::TransferTiming Timing(
    engine::TransferTiming::Mode mode = engine::TransferTiming::Mode::kFullPrompt) {
  return {mode, 40, 45056, 0.01};  // 180.224 ms
}

/// A loop and a clock that move together, a millisecond at a time.
class SessionTest : public ::testing::Test {
 protected:
  using Names = std::vector<std::string>;
  using HandoffOutcome = engine::HandoffOutcome;

  void Pass(Nanoseconds time) {
    for (Nanoseconds gone{0}; gone < time; gone += std::chrono::milliseconds(1)) {
      clock_.Advance(std::chrono::milliseconds(1));
      loop_.Advance(std::chrono::milliseconds(1));
    }
    loop_.RunPosted();
  }
  static transport::BootstrapMessage Ack(std::uint64_t id,
                                         transport::BootstrapActionAck::Outcome outcome,
                                         const std::string& error = "") {
    return transport::BootstrapActionAck{id, outcome, error};
  }
  static transport::BootstrapMessage Action(std::uint64_t id,
                                            transport::BootstrapAction::Kind kind) {
    return transport::BootstrapAction{id, kind, kIdentity.handoff_id, 0.0};
  }
  static transport::BootstrapMessage Reserved(std::uint64_t tokens) {
    transport::BootstrapFact fact;
    fact.kind = transport::BootstrapFact::Kind::kDestinationReserved;
    fact.handoff_id = kIdentity.handoff_id;
    fact.transferable_prompt_tokens = tokens;
    return fact;
  }
  static transport::BootstrapMessage Held(const transport::BootstrapTiming& timing) {
    transport::BootstrapFact fact;
    fact.kind = transport::BootstrapFact::Kind::kSourceHeld;
    fact.handoff_id = kIdentity.handoff_id;
    fact.timing = timing;
    return fact;
  }

  fakes::FakeLoop loop_;
  ManualClock clock_;
  SessionPlace place_{loop_, clock_, std::chrono::milliseconds(1500)};
};

}  // namespace understudy::worker
