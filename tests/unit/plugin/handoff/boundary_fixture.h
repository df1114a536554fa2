// A LiveBoundary over a rank that answers when the test says so.
#pragma once

#include "plugin/mocker/handoff/live_boundary.h"
#include "tests/fakes/fake_loop.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::mocker::handoff {

class StubPort final : public CommandPort {
 public:
  [[nodiscard]] bool Running() const override {
    ++asked;
    return running && asked != stops_at;
  }
  [[nodiscard]] Status Send(Command command) override {
    if (!refusal) {
      return refusal;
    }
    sent.push_back(std::move(command));
    return {};
  }
  void CancelRequest(RequestId id, RankIndex) override { cancelled.push_back(id); }

  bool running = true;
  mutable int asked = 0;
  int stops_at = -1;  ///< the question that gets another answer
  Status refusal;
  std::vector<Command> sent;
  std::vector<RequestId> cancelled;
};

/// What a callback got.
template <class T>
struct Answer {
  std::optional<Result<T>> result;
  int calls = 0;

  auto Taker() {
    return [this](Result<T> got) {
      result = std::move(got);
      ++calls;
    };
  }
  [[nodiscard]] bool came() const { return result.has_value(); }
  [[nodiscard]] std::string error() const {
    return came() && !*result ? result->error().message : "";
  }
};
using CallAnswer = Answer<engine::HandoffOutcome>;

class BoundaryTest : public ::testing::Test {
 protected:
  using Kind = Command::Kind;
  using HandoffOutcome = engine::HandoffOutcome;
  using Signal = engine::HandoffSignal;

  static constexpr engine::HandoffId kId{{0x6f0c1a9e00000000, 1}};
  static constexpr const char* kName = "HandoffId(6f0c1a9e-0000-0000-0000-000000000001)";
  static constexpr engine::HandoffId kOther{{2, 2}};

  BoundaryTest() { Make(); }

  void Make() {
    boundary_ = std::make_unique<LiveBoundary>(
        RankIndex{3},
        engine::TransferTiming{engine::TransferTiming::Mode::kFullPrompt, 0, 45056, 64.0},
        port_,
        [this](Task task) { loop_.Post(std::move(task)); });
  }

  engine::HandoffRegistration Register(engine::HandoffId id = kId) {
    auto registered = boundary_->Register(id);
    EXPECT_TRUE(registered) << registered.error().message;
    return std::move(*registered);
  }
  std::string RefusalOf(engine::HandoffId id = kId) {
    const auto registered = boundary_->Register(id);
    return registered ? "" : registered.error().message;
  }
  static engine::Request MakeRequest(std::uint64_t id) {
    engine::Request request;
    request.id = RequestId{id};
    request.rank = RankIndex{3};
    request.prompt = {1, 2, 3, 4};
    request.output_tokens_max = 1;
    return request;
  }
  engine::PreparedHandoff Prepare(std::uint64_t id) {
    auto prepared = boundary_->Prepare(MakeRequest(id), "client-" + std::to_string(id));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return std::move(*prepared);
  }

  /// The rank's answer to the command sent as number `place`.
  void Reply(std::size_t place, HandoffOutcome outcome) {
    ASSERT_LT(place, port_.sent.size());
    Signal signal;
    signal.rank = RankIndex{3};
    signal.handoff = port_.sent[place].handoff;
    signal.command = port_.sent[place].number;
    signal.outcome = outcome;
    boundary_->OnSignal(signal);
    loop_.RunPosted();
  }
  void ReplyError(std::size_t place, const std::string& text) {
    ASSERT_LT(place, port_.sent.size());
    Signal signal;
    signal.command = port_.sent[place].number;
    signal.error = text;
    boundary_->OnSignal(signal);
    loop_.RunPosted();
  }
  void Happens(Signal::Kind kind, std::uint64_t tokens, engine::HandoffId id = kId) {
    Signal signal;
    signal.kind = kind;
    signal.rank = RankIndex{3};
    signal.handoff = id;
    signal.tokens = tokens;
    boundary_->OnSignal(signal);
    loop_.RunPosted();
  }
  void Reserved(std::uint64_t tokens, engine::HandoffId id = kId) {
    Happens(Signal::Kind::kDestinationReserved, tokens, id);
  }
  [[nodiscard]] std::vector<Kind> SentKinds() const {
    std::vector<Kind> kinds;
    for (const Command& command : port_.sent) {
      kinds.push_back(command.kind);
    }
    return kinds;
  }

  /// Receives from `events` until it ends; tokens of what came.
  struct Listener {
    std::vector<std::uint64_t> tokens;
    bool ended = false;
    std::shared_ptr<int> calls = std::make_shared<int>(0);
  };
  static void Listen(engine::HandoffEvents& events, Listener& to) {
    events.Receive([&events, &to](std::optional<engine::HandoffEvent> event) {
      ++*to.calls;
      if (!event) {
        to.ended = true;
        return;
      }
      if (const auto* held = std::get_if<engine::SourceHeld>(&*event)) {
        to.tokens.push_back(held->timing.full_prompt_tokens);
      } else {
        to.tokens.push_back(
            std::get<engine::DestinationReserved>(*event).transferable_prompt_tokens);
      }
      Listen(events, to);
    });
  }

  fakes::FakeLoop loop_;
  StubPort port_;
  std::unique_ptr<LiveBoundary> boundary_;
};

}  // namespace understudy::mocker::handoff
