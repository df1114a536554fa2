#include "worker/ctl/printer.h"

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::ControlItem;
using transport::ControlOp;
using Kind = ControlItem::Kind;

transport::ControlCommand Command(ControlOp op) {
  transport::ControlCommand command;
  command.op = op;
  command.handoff_id = *ParseUuid("6f0c1a9e-3b52-4d0e-9a71-0123456789ab");
  return command;
}

TEST(CtlPrinter, StatsHaveALineForEachRank) {
  ControlItem item;
  item.requests = 3;
  item.ranks.push_back({0, 1, 2, 3, 4, 5, 6, 7});
  item.ranks.push_back({1});
  EXPECT_EQ(DescribeControlItem(0x4d, Command(ControlOp::kStats), item),
            "4d serving requests=3\n"
            "  rank=0 running=1 waiting=2 blocks_used=3 blocks_cached=4 blocks_total=5 handoffs=6 "
            "sessions=7\n"
            "  rank=1 running=0 waiting=0 blocks_used=0 blocks_cached=0 blocks_total=0 handoffs=0 "
            "sessions=0");
}

TEST(CtlPrinter, ARefusedRankSaysWhy) {
  ControlItem item;
  item.kind = Kind::kCleared;
  item.ranks.emplace_back().blocks_cleared = 9;
  item.ranks.push_back({.rank = 1, .blocks_in_use = 4, .refused = true});
  EXPECT_EQ(DescribeControlItem(0x4d, Command(ControlOp::kClearKvBlocks), item),
            "4d cleared\n"
            "  rank=0 blocks_cleared=9 blocks_in_use=0\n"
            "  rank=1 refused, because it is in use: blocks_in_use=4");
}

TEST(CtlPrinter, StatesSayWhetherSomethingChanged) {
  ControlItem item;
  item.kind = Kind::kState;
  item.state = transport::ControlState::kDraining;
  item.requests = 2;
  EXPECT_EQ(DescribeControlItem(0x4d, Command(ControlOp::kDrain), item),
            "4d draining requests=2 (unchanged)");
  item.changed = true;
  EXPECT_EQ(DescribeControlItem(0x4d, Command(ControlOp::kDrain), item), "4d draining requests=2");
}

TEST(CtlPrinter, HandOffItems) {
  const auto command = Command(ControlOp::kRegisterHandoff);
  ControlItem item;
  item.kind = Kind::kRegistered;
  item.generation = 8;
  EXPECT_EQ(DescribeControlItem(1, command, item),
            "1 registered handoff_id=6f0c1a9e-3b52-4d0e-9a71-0123456789ab generation=8");
  item.kind = Kind::kSourceHeld;
  item.timing.full_prompt_tokens = 100;
  item.timing.bandwidth_gb_s = 12.5;
  EXPECT_EQ(DescribeControlItem(1, command, item),
            "1 source_held mode=full_prompt full_prompt_tokens=100 kv_bytes_per_token=- "
            "bandwidth_gb_s=12.5");
  item.kind = Kind::kDestinationReserved;
  item.transferable_prompt_tokens = 5;
  EXPECT_EQ(DescribeControlItem(1, command, item),
            "1 destination_reserved transferable_prompt_tokens=5");
  item.kind = Kind::kFinished;
  item.reason = "length";
  EXPECT_EQ(DescribeControlItem(1, command, item), "1 finished reason=length");
}

TEST(CtlPrinter, JsonLinesAreTheItemWithItsInstance) {
  ControlItem item;
  item.kind = Kind::kToken;
  item.token = 17;
  EXPECT_EQ(ControlItemJson(0x4d, Command(ControlOp::kSubmitPrefill), item),
            R"({"instance":"4d","type":"token","token":17})");
  item.kind = Kind::kRegistered;
  item.generation = 2;
  EXPECT_EQ(
      ControlItemJson(0x4d, Command(ControlOp::kRegisterHandoff), item),
      R"({"instance":"4d","handoff_id":"6f0c1a9e-3b52-4d0e-9a71-0123456789ab","type":"registered","generation":2})");
}

}  // namespace
}  // namespace understudy::worker
