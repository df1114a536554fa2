// How events find their registration: rows M-239 to M-242, properties P6, P10, P11.
#include "tests/unit/plugin/handoff/boundary_fixture.h"

namespace understudy::mocker::handoff {
namespace {

using BoundaryEvents = BoundaryTest;
constexpr std::size_t kRoom = engine::HandoffEvents::kWaitingMax;

TEST_F(BoundaryEvents, M239_EightEventsFitTheNinthWaits) {
  const auto registration = Register();
  for (std::uint64_t i = 1; i <= kRoom + 1; ++i) {
    Reserved(i);
  }
  EXPECT_EQ(boundary_->sizes().events_waiting, 1U);
  std::uint64_t first = 0;
  registration.events->Receive([&first](const auto& event) {
    first = std::get<engine::DestinationReserved>(*event).transferable_prompt_tokens;
  });
  loop_.RunPosted();
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(boundary_->sizes().events_waiting, 0U) << "there was room for the ninth";
}

TEST_F(BoundaryEvents, EventsComeInOrderThenTheEnd) {
  auto registration = Register();
  for (std::uint64_t i = 1; i <= kRoom + 4; ++i) {
    Reserved(i);
  }
  Listener listener;
  Listen(*registration.events, listener);
  loop_.RunPosted();
  EXPECT_EQ(listener.tokens.size(), kRoom + 4);
  EXPECT_TRUE(std::is_sorted(listener.tokens.begin(), listener.tokens.end()));
  EXPECT_FALSE(listener.ended);
  boundary_->Shutdown([](const Status&) {});
  loop_.RunPosted();
  EXPECT_TRUE(listener.ended);
}

TEST_F(BoundaryEvents, WhatIsInLineIsStillReceivedAfterTheEnd) {
  auto registration = Register();
  Reserved(1);
  Reserved(2);
  boundary_->Shutdown([](const Status&) {});
  Listener listener;
  Listen(*registration.events, listener);
  loop_.RunPosted();
  EXPECT_EQ(listener.tokens, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(listener.ended);
}

TEST_F(BoundaryEvents, P11_AConsumerWhoDoesNotReadHoldsUpTheOthers) {
  auto slow = Register();
  auto other = Register(kOther);
  Listener listener;
  Listen(*other.events, listener);
  for (std::uint64_t i = 0; i <= kRoom; ++i) {
    Reserved(i);
  }
  Reserved(99, kOther);
  EXPECT_TRUE(listener.tokens.empty());
  slow.events.reset();  // P11: leaving is possible while the dispatcher waits for room
  loop_.RunPosted();
  EXPECT_EQ(listener.tokens, std::vector<std::uint64_t>{99});
}

TEST_F(BoundaryEvents, M240_AFullRegistrationDoesNotKeepTheEngineFromEnding) {
  auto registration = Register();
  for (std::uint64_t i = 0; i < kRoom + 5; ++i) {
    Reserved(i);
  }
  bool done = false;
  boundary_->Shutdown([&done](const Status& result) { done = result.has_value(); });
  loop_.RunPosted();
  EXPECT_TRUE(done);
  EXPECT_EQ(boundary_->sizes().registered, 0U);
  EXPECT_EQ(boundary_->sizes().events_waiting, 0U);
}

TEST_F(BoundaryEvents, M241_EventsOfUnknownIdsAreDropped) {
  const auto registration = Register();
  Reserved(1, kOther);
  EXPECT_EQ(boundary_->counts().events_dropped_total, 1U);
  EXPECT_EQ(boundary_->sizes().events_waiting, 0U);
}

TEST_F(BoundaryEvents, M242_ARegistrationWithoutReceiverIsGone) {
  auto registration = Register();
  Reserved(1);
  registration.events.reset();
  EXPECT_EQ(boundary_->sizes().registered, 0U);
  Reserved(2);
  EXPECT_EQ(boundary_->counts().events_dropped_total, 1U);
}

TEST_F(BoundaryEvents, P6_ANewRegistrationHearsOnlyWhatIsSaidAfterIt) {
  auto first = Register();
  Reserved(1);
  first.events.reset();
  auto second = Register();
  Listener listener;
  Listen(*second.events, listener);
  loop_.RunPosted();
  EXPECT_TRUE(listener.tokens.empty());
  Reserved(2);
  EXPECT_EQ(listener.tokens, std::vector<std::uint64_t>{2});
}

TEST_F(BoundaryEvents, NothingIsHeardByAReceiverThatIsGone) {
  auto registration = Register();
  Listener listener;
  const auto calls = listener.calls;
  Listen(*registration.events, listener);
  Signal signal;
  signal.kind = Signal::Kind::kDestinationReserved;
  signal.handoff = kId;
  boundary_->OnSignal(signal);  // on its way to the receiver
  registration.events.reset();
  loop_.RunPosted();
  EXPECT_EQ(*calls, 0);
}

TEST_F(BoundaryEvents, TheLineInFrontOfASilentConsumerIsBounded) {
  auto silent = Register();
  auto other = Register(kOther);
  Listener listener;
  Listen(*other.events, listener);
  for (std::size_t i = 0; i < kRoom; ++i) {
    Reserved(i);
  }
  for (std::size_t i = 0; i < kLaneEventsMax; ++i) {
    Signal signal;
    signal.kind = Signal::Kind::kDestinationReserved;
    signal.handoff = i == 0 ? kId : kOther;
    signal.tokens = i;
    boundary_->OnSignal(signal);
  }
  EXPECT_EQ(boundary_->sizes().events_waiting, kLaneEventsMax);
  EXPECT_EQ(boundary_->counts().lane_closed_total, 0U);
  Reserved(7, kOther);
  EXPECT_EQ(boundary_->counts().lane_closed_total, 1U);
  EXPECT_EQ(boundary_->sizes().registered, 1U) << "the silent one is out";
  EXPECT_EQ(listener.tokens.size(), kLaneEventsMax) << "all of the other's were delivered";
}

}  // namespace
}  // namespace understudy::mocker::handoff
