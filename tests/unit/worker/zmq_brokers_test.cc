#include "worker/event_side/zmq_brokers.h"

#include "worker/call/zmq_watch.h"

#include <map>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using Texts = std::vector<std::string>;

Result<ZmqBrokers> Of(std::map<std::string, std::string> variables) {
  return ZmqBrokersFromEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(ZmqBrokers, AreNamedByAVariable) {
  const auto one = Of({{"DYN_ZMQ_BROKER_URL", "xsub=tcp://b:5555 , xpub=tcp://b:5556"},
                       {"DYN_ZMQ_BROKER_ENABLED", "true"}});
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->xsub, Texts{"tcp://b:5555"});
  EXPECT_EQ(one->xpub, Texts{"tcp://b:5556"});
  EXPECT_FALSE(one->in_discovery) << "the address comes first";
  EXPECT_TRUE(one->used());

  const auto two =
      Of({{"DYN_ZMQ_BROKER_URL", "xpub=tcp://a:2; tcp://b:2;,xsub=tcp://a:1;tcp://b:1"}});
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->xsub, (Texts{"tcp://a:1", "tcp://b:1"}));
  EXPECT_EQ(two->xpub, (Texts{"tcp://a:2", "tcp://b:2"}));
}

TEST(ZmqBrokers, AreLookedUpWhenAskedFor) {
  EXPECT_FALSE(Of({})->used());
  EXPECT_FALSE(Of({{"DYN_ZMQ_BROKER_ENABLED", "false"}, {"DYN_ZMQ_BROKER_URL", ""}})->used());
  EXPECT_TRUE(Of({{"DYN_ZMQ_BROKER_ENABLED", "1"}})->in_discovery);
}

TEST(ZmqBrokers, AnAddressThatIsNoneIsRefused) {
  for (const std::string url : {"tcp://a:1",
                                "xsub=tcp://a:1",
                                "xsub=tcp://a:1,xpub=",
                                "xsub=tcp://a:1,xpub=a",
                                "xsub=tcp://a:1,xpub=tcp://a:2,tcp://a:3",
                                "x"}) {
    const auto refused = Of({{"DYN_ZMQ_BROKER_URL", url}});
    ASSERT_FALSE(refused) << url;
    EXPECT_EQ(refused.error().code, Errc::kInvalidConfig);
    EXPECT_EQ(refused.error().message,
              "DYN_ZMQ_BROKER_URL '" + url +
                  "' is not understood (expected: xsub=<endpoint>[;<endpoint>...], "
                  "xpub=<endpoint>[;<endpoint>...], each like tcp://host:port)");
  }
}

TEST(ZmqBrokers, RecordsOfOthersAreNone) {
  const auto record = [](const std::string& ns, const std::string& component, const char* kind) {
    return transport::Record{
        "k",
        R"({"type":"EventChannel","namespace":")" + ns + R"(","component":")" + component +
            R"(","topic":"t","instance_id":1,"transport":{"kind":")" + kind +
            R"(","config":{"endpoint":"tcp://x:1","xsub_endpoints":["tcp://b:1"],)" +
            R"("xpub_endpoints":["tcp://b:2"]}}})"};
  };
  ZmqBrokers brokers;
  EXPECT_FALSE(AddBrokersOf({record("other", "zmq_broker", "ZmqBroker"),
                             record("ns", "backend", "ZmqBroker"),
                             record("ns", "zmq_broker", "Zmq"),
                             {"k", "{"}},
                            "ns",
                            brokers));
  EXPECT_TRUE(brokers.xsub.empty());
  EXPECT_TRUE(AddBrokersOf({record("ns", "zmq_broker", "ZmqBroker")}, "ns", brokers));
  EXPECT_EQ(brokers.xsub, Texts{"tcp://b:1"});
  EXPECT_EQ(brokers.xpub, Texts{"tcp://b:2"});
}

TEST(SeenMessages, KnowsTheNewest) {
  SeenMessages seen;
  EXPECT_TRUE(seen.Add(1, 1));
  EXPECT_TRUE(seen.Add(2, 1));
  EXPECT_FALSE(seen.Add(1, 1));
  for (std::uint64_t i = 2; i < SeenMessages::kKeptMax; ++i) {
    ASSERT_TRUE(seen.Add(1, i));
  }
  EXPECT_FALSE(seen.Add(1, 1)) << "still among the newest";
  EXPECT_TRUE(seen.Add(3, 0));
  EXPECT_TRUE(seen.Add(1, 1)) << "the oldest is forgotten";
}

}  // namespace
}  // namespace understudy::worker
