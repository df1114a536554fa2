#include "understudy/transport/kv_batch.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using Frames = std::vector<std::string_view>;

const std::string kSeven = SequenceFrame(7);
const std::string kEnd = SequenceFrame(kReplayEndSequence);

TEST(EngineMessage, HasTopicSequenceAndPayload) {
  EXPECT_EQ(kSeven, std::string("\0\0\0\0\0\0\0\7", 8));
  const auto message = ParseEngineMessage(Frames{"kv", kSeven, "payload"});
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->topic, "kv");
  EXPECT_EQ(message->sequence, 7U);
  EXPECT_EQ(message->payload, "payload");
}

TEST(EngineMessage, RefusesOtherFrames) {
  EXPECT_EQ(ParseEngineMessage(Frames{kSeven, "p"}).error().message,
            "kv event message: 2 frames (allowed: 3)");
  EXPECT_EQ(ParseEngineMessage(Frames{"", kSeven, "p", "x"}).error().message,
            "kv event message: 4 frames (allowed: 3)");
  EXPECT_EQ(ParseEngineMessage(Frames{"", "1234", "p"}).error().message,
            "kv event message: a sequence of 4 bytes (allowed: 8)");
  EXPECT_FALSE(ParseEngineMessage(Frames{}).has_value());
}

TEST(ReplayReply, IsReadInTheShapesOfBothReleases) {
  for (const Frames& frames : {Frames{"", kSeven, "p"}, Frames{"", "topic", kSeven, "p"}}) {
    const auto reply = ParseReplayReply(frames);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->sequence, 7U);
    EXPECT_EQ(reply->payload, "p");
    EXPECT_FALSE(reply->ended);
  }
}

TEST(ReplayReply, EndsWithTheLastNumberOrWithoutAPayload) {
  EXPECT_TRUE(ParseReplayReply(Frames{"", kEnd, ""})->ended);
  EXPECT_TRUE(ParseReplayReply(Frames{"", "", kEnd, ""})->ended);
  EXPECT_TRUE(ParseReplayReply(Frames{"topic", kEnd, "x"})->ended);
  EXPECT_TRUE(ParseReplayReply(Frames{"", kSeven, ""})->ended);
}

TEST(ReplayReply, RefusesOtherFrames) {
  EXPECT_EQ(ParseReplayReply(Frames{kSeven, "p"}).error().message,
            "replay reply: 2 frames (allowed: 3 or 4)");
  EXPECT_EQ(ParseReplayReply(Frames{"", "12345678x", "p"}).error().message,
            "replay reply: a sequence of 9 bytes (allowed: 8)");
}

}  // namespace
}  // namespace understudy::transport
