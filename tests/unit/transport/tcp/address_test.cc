#include "understudy/transport/response_stream.h"

#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

using Good = std::tuple<const char*, const char*, int>;
class GoodAddress : public ::testing::TestWithParam<Good> {};

TEST_P(GoodAddress, IsSplitAtTheLastColon) {
  const auto [text, host, port] = GetParam();
  const auto parsed = ParseHostPort(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->host, host);
  EXPECT_EQ(parsed->port, port);
}
INSTANTIATE_TEST_SUITE_P(
    Forms,
    GoodAddress,
    ::testing::Values(Good{"127.0.0.1:8107", "127.0.0.1", 8107},
                      Good{"frontend:1", "frontend", 1},
                      Good{"frontend.svc.local:65535", "frontend.svc.local", 65535},
                      Good{"::1:8107", "::1", 8107},  // as a 1.3.0 frontend writes it
                      Good{"[::1]:8107", "::1", 8107},
                      Good{"fd00::2:40123", "fd00::2", 40123},
                      Good{"[fe80::1%eth0]:80", "fe80::1%eth0", 80},
                      Good{"fe80::1%eth0:80", "fe80::1%eth0", 80},
                      Good{":::9", "::", 9}));

class BadAddress : public ::testing::TestWithParam<const char*> {};

TEST_P(BadAddress, IsRefusedWithItsText) {
  const std::string text = GetParam();
  const auto parsed = ParseHostPort(text);
  ASSERT_FALSE(parsed) << parsed->host << " port " << parsed->port;
  EXPECT_EQ(parsed.error().code, Errc::kMalformed);
  EXPECT_NE(parsed.error().message.find("'" + text + "'"), std::string::npos)
      << parsed.error().message;
}
INSTANTIATE_TEST_SUITE_P(Forms,
                         BadAddress,
                         ::testing::Values("",
                                           "localhost",
                                           ":80",
                                           "[]:80",
                                           "host:",
                                           "host:0",
                                           "host:65536",
                                           "host:99999999999999999999",
                                           "host:-1",
                                           "host:+1",
                                           "host: 80",
                                           "host:80 ",
                                           "host:80x",
                                           "ho st:80",
                                           "host/path:80",
                                           "ho\tst:80",
                                           "[::1:80",
                                           "::1]:80",
                                           "::1",  // an address without a port, not port 1 of ":"
                                           "a:b:80",  // neither a name nor IPv6
                                           "1:2:3:80",
                                           "[[::1]]:80"));

TEST(BadAddress, WithAControlCharacterIsRefused) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(ParseHostPort("ho\0st:80"sv));
  EXPECT_FALSE(ParseHostPort("host\x7f:80"sv));
}

TEST(BadAddress, AnEndlessOneIsCutInTheErrorText) {
  const auto parsed = ParseHostPort(std::string(1 << 20, 'x'));
  ASSERT_FALSE(parsed);
  EXPECT_LT(parsed.error().message.size(), 400U);
}

}  // namespace
}  // namespace understudy::transport
