#include "worker/kv_relay/batch_ring.h"
#include "worker/kv_relay/engine_publisher.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::string Refusal(const std::vector<PortRange>& ranges) {
  const auto checked = CheckPortRanges(ranges);
  return checked ? "" : checked.error().message;
}

TEST(EnginePorts, RangesThatOverlapAreNamedBoth) {
  EXPECT_EQ(Refusal({{"--zmq-kv-events-ports", 5557, 4}, {"--zmq-replay-ports", 5559, 4}}),
            "--zmq-kv-events-ports 5557..5560 and --zmq-replay-ports 5559..5562 overlap");
  EXPECT_EQ(Refusal({{"a", 100, 4}, {"b", 104, 4}, {"c", 96, 4}}), "");
  EXPECT_NE(Refusal({{"a", 100, 4}, {"b", 200, 4}, {"c", 103, 1}}), "");
}

TEST(EnginePorts, AllPortsOfARangeExist) {
  EXPECT_EQ(Refusal({{"a", 65532, 4}}), "");
  EXPECT_EQ(Refusal({{"a", 65533, 4}}), "a 65533..65536 is outside of the ports 1..65535");
  EXPECT_EQ(Refusal({{"a", 0, 1}}), "a 0..0 is outside of the ports 1..65535");
}

TEST(BatchRing, KeepsTheLatestWithinBothBounds) {
  BatchRing ring({3, 10});
  for (const char* payload : {"a", "b", "c", "d"}) {
    ring.Push(payload);
  }
  EXPECT_EQ(ring.begin(), 1U);
  EXPECT_EQ(ring.end(), 4U);
  EXPECT_EQ(ring.At(1), "b");
  ring.Push(std::string(9, 'e'));
  EXPECT_EQ(ring.begin(), 3U);
  EXPECT_EQ(ring.bytes(), 10U);
  ring.Push(std::string(100, 'f'));
  EXPECT_EQ(ring.begin(), 5U);
  EXPECT_EQ(ring.At(5).size(), 100U);
}

}  // namespace
}  // namespace understudy::worker
