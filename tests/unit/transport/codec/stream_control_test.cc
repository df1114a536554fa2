#include "understudy/transport/codec.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

TEST(StreamControl, ReadsItsOwnWords) {
  for (const auto control :
       {StreamControl::kStop, StreamControl::kKill, StreamControl::kSentinel}) {
    std::string bytes;
    AppendStreamControl(bytes, control);
    const auto frame = ParseTwoPart(bytes, 0);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(ParseStreamControl(*frame), control);
  }
}

TEST(StreamControl, RefusesEverythingElse) {
  for (const char* header : {"",
                             "kill",
                             R"("kil")",
                             R"("kill)",
                             R"("kill" "stop")",
                             "{}",
                             "5",
                             "null",
                             "[\"kill\"]",
                             "\"\xff\""}) {
    const auto control = ParseStreamControl(TwoPartView{header, {}, 0});
    ASSERT_FALSE(control.has_value()) << header;
    EXPECT_EQ(control.error().code, Errc::kMalformed);
  }
}

TEST(StreamControl, RefusesData) {
  EXPECT_FALSE(ParseStreamControl(TwoPartView{R"("kill")", "x", 0}).has_value());
  EXPECT_FALSE(ParseStreamControl(TwoPartView{{}, R"("kill")", 0}).has_value());
}

}  // namespace
}  // namespace understudy::transport
