#include "worker/config/engine_ports.h"

#include "worker/config/port_list.h"
#include "worker/kv_relay/batch_ring.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::string Refusal(const std::vector<PortRange>& ranges) {
  const auto checked = CheckPortRanges(ranges);
  return checked ? "" : checked.error().message;
}

TEST(EnginePorts, U11RangesThatOverlapAreNamedBoth) {
  EXPECT_EQ(Refusal({{"--zmq-kv-events-ports", 5557, 4}, {"--zmq-replay-ports", 5559, 4}}),
            "--zmq-kv-events-ports 5557..5560 and --zmq-replay-ports 5559..5562 overlap");
  EXPECT_EQ(Refusal({{"a", 100, 4}, {"b", 104, 4}, {"c", 96, 4}}), "");
  EXPECT_NE(Refusal({{"a", 100, 4}, {"b", 200, 4}, {"c", 103, 1}}), "");
}

std::string PortsRefusal(const EnginePortsInput& input) {
  const auto made = MakeEnginePorts(input);
  return made ? "" : made.error().message;
}

TEST(EnginePorts, U11OverlappingFlagsAreRefusedWithBothRangesNamed) {
  EnginePortsInput input;
  input.events_list = "5557";
  input.replay_list = "5559";
  input.dp_size = 4;
  EXPECT_EQ(PortsRefusal(input),
            "--zmq-kv-events-ports 5557..5560 and --zmq-replay-ports 5559..5562 overlap");
  input.replay_list = "5561";
  EXPECT_EQ(PortsRefusal(input), "");
  input.events_list = "5557,5560";
  input.replay_list.reset();
  input.workers = 2;
  EXPECT_EQ(PortsRefusal(input),
            "--zmq-kv-events-ports 5557..5560 and --zmq-kv-events-ports 5560..5563 overlap");
}

// Texts of dynamo.mocker 1.3.0, C-022.
TEST(EnginePorts, ListsHaveAPortPerWorkerAndReplayNeedsEvents) {
  EnginePortsInput input;
  input.replay_list = "5600";
  EXPECT_EQ(PortsRefusal(input), "--zmq-replay-ports requires --zmq-kv-events-ports");
  input.events_list = "5557, 5558";
  EXPECT_EQ(PortsRefusal(input),
            "--zmq-kv-events-ports must have exactly --num-workers (1) ports, got 2: [5557, 5558]");
  input.workers = 2;
  EXPECT_EQ(PortsRefusal(input),
            "--zmq-replay-ports must have exactly --num-workers (2) ports, got 1: [5600]");
  input.replay_list = "5600,5700";
  const auto made = MakeEnginePorts(input);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ASSERT_EQ(made->size(), 2U);
  EXPECT_EQ(made->at(1).events, 5558);
  EXPECT_EQ(made->at(1).replay, 5700);
}

TEST(EnginePorts, WhatIsNoPortIsNamed) {
  EnginePortsInput input;
  for (const char* text : {"0", "65536", "-1", "5557,", "a", "5557x", " "}) {
    input.events_list = text;
    EXPECT_NE(PortsRefusal(input).find("is not a port (allowed: whole numbers from 1 to 65535"),
              std::string::npos)
        << text << ": " << PortsRefusal(input);
  }
}

TEST(EnginePorts, TheEngineArgumentsPortIsUsedWhenNoListIsGiven) {
  EnginePortsInput input;
  input.events_port = 6000;
  const auto from_arguments = MakeEnginePorts(input);
  ASSERT_TRUE(from_arguments.has_value());
  EXPECT_EQ(from_arguments->at(0).events, 6000);
  EXPECT_FALSE(from_arguments->at(0).replay.has_value());
  input.events_list = "7000";
  EXPECT_EQ(MakeEnginePorts(input)->at(0).events, 7000);
  EXPECT_TRUE(MakeEnginePorts({}).value().empty());
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
