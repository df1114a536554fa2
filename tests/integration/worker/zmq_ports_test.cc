// A worker whose engine tells of its cache on ZMQ sockets, as real engines do, and whose relay
// reads it there. Source: mission.md A.5, events.md 1.7; M-026 to M-031, M-035, M-036.
#include "tests/integration/worker/event_reader.h"
#include "tests/integration/worker/worker_test.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/token_hash.h"
#include "understudy/transport/zmq.h"

#include <array>
#include <mutex>
#include <random>

namespace understudy::worker {
namespace {

using ZmqMessage = std::vector<std::string>;
using ZmqMessages = std::vector<ZmqMessage>;

constexpr std::uint32_t kBlockSize = 4;
const Arguments kSmall =
    kFree +
    Arguments{"--num-gpu-blocks-override", "64", "--block-size", "4", "--engine-threads", "1"};

class ZmqPorts : public WorkerTest {
 protected:
  void Load(const WorkerProcess& worker, std::uint32_t seed, std::uint32_t requests) {
    std::mt19937 generator(seed);
    std::vector<CallPtr> calls;
    for (std::uint32_t i = 0; i < requests; ++i) {
      auto spec = Spec(worker, 0, 1 + static_cast<std::uint32_t>(generator() % 12));
      spec.request.token_ids = Prompt(4 + generator() % 24, 10 * seed + i % 20);
      calls.push_back(frontend().Send(spec));
    }
    for (const auto& call : calls) {
      ASSERT_TRUE(call->WaitClosed());
      EXPECT_EQ(call->error(), "");
    }
    ASSERT_TRUE(worker.WaitIdle());
  }
  /// For two ranks.
  static std::uint16_t BasePort() { return fakes::FreePorts(2).value(); }
};

/// Someone who asks the engine of a worker for what it has said.
class Replayer {
 public:
  explicit Replayer(std::uint16_t replay_port) {
    thread_.Do([&] {
      dealer_ = std::move(*transport::ZmqDealer::New(
          thread_.loop(), transport::ZmqContext::New(), {}, [this](transport::ZmqFrames frames) {
            const std::scoped_lock lock(mutex_);
            replies_.emplace_back(frames.begin(), frames.end());
          }));
      EXPECT_TRUE(dealer_->Connect("tcp://127.0.0.1:" + std::to_string(replay_port)));
    });
  }
  ~Replayer() {
    thread_.Do([this] { dealer_.reset(); });
  }
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  /// All that the engine has kept from `start` on, up to and without the end mark.
  ZmqMessages Ask(std::uint64_t start) {
    thread_.Do([&] {
      const std::string sequence = transport::SequenceFrame(start);
      const std::array<std::string_view, 2> frames = {std::string_view(), sequence};
      dealer_->Send(frames);
    });
    const std::string end = transport::SequenceFrame(transport::kReplayEndSequence);
    EXPECT_TRUE(Eventually([&] {
      const std::scoped_lock lock(mutex_);
      return !replies_.empty() && replies_.back().size() == 3 && replies_.back()[1] == end;
    })) << "no end mark";
    const std::scoped_lock lock(mutex_);
    ZmqMessages all = std::exchange(replies_, {});
    if (!all.empty()) {
      EXPECT_EQ(all.back().back(), "");
      all.pop_back();
    }
    return all;
  }

 private:
  std::mutex mutex_;
  ZmqMessages replies_;
  fakes::LoopThread thread_;
  std::unique_ptr<transport::ZmqDealer> dealer_;
};

/// What the batches say, in the words of the event plane, for comparison with it.
std::vector<std::string> Said(const ZmqMessages& replies, std::uint32_t dp_rank) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].size(), 3U);
    EXPECT_EQ(replies[i][1], transport::SequenceFrame(i)) << "8 bytes, big-endian, from 0";
    const auto batch = transport::DecodeKvBatch(replies[i][2]);
    EXPECT_TRUE(batch.has_value());
    EXPECT_EQ(batch->dp_rank, dp_rank);
    EXPECT_GT(batch->timestamp_s, 1.6e9);
    for (const auto& event : batch->events) {
      if (const auto* removed = std::get_if<transport::EngineKvRemoved>(&event)) {
        for (const auto hash : removed->hashes) {
          said.push_back("removed " + std::to_string(Value(hash)));
        }
        continue;
      }
      const auto& stored = std::get<transport::EngineKvStored>(event);
      EXPECT_EQ(stored.block_size, kBlockSize);
      EXPECT_EQ(stored.scope.group_idx, 0U);
      EXPECT_FALSE(stored.scope.medium.has_value());
      const transport::TokenWindows windows(stored.tokens, kBlockSize, false);
      EXPECT_EQ(windows.size(), stored.hashes.size());
      for (std::size_t block = 0; block < windows.size(); ++block) {
        const auto hash =
            transport::HashWindow(windows[block], {}, transport::TokenHashSeed("", ""));
        said.push_back("stored " + std::to_string(Value(stored.hashes[block])) + " " +
                       std::to_string(Value(hash)));
      }
    }
  }
  return said;
}

std::vector<std::string> Said(const std::vector<transport::RouterEvent>& events) {
  std::vector<std::string> said;
  for (const auto& event : events) {
    for (const auto& block : event.blocks) {
      said.push_back(event.kind == transport::RouterEvent::Kind::kStored
                         ? "stored " + std::to_string(Value(block.block_hash)) + " " +
                               std::to_string(Value(block.tokens_hash))
                         : "removed " + std::to_string(Value(block.block_hash)));
    }
  }
  return said;
}

TEST_F(ZmqPorts, M026_M027_M028_M035_WhatTheEngineSaysOnEachRanksSocketIsWhatRoutersAreTold) {
  EventReader reader(nats().url(), ns());
  const std::uint16_t events = BasePort();
  const std::uint16_t replay = static_cast<std::uint16_t>(events + 2);
  for (const std::string release : {"1.3", "1.6"}) {
    SCOPED_TRACE(release);
    const bool in_16 = release == "1.6";
    const auto worker = Start(kSmall + Arguments{"--data-parallel-size",
                                                 "2",
                                                 "--dynamo-release",
                                                 release,
                                                 "--zmq-kv-events-ports",
                                                 std::to_string(events),
                                                 "--zmq-replay-ports",
                                                 std::to_string(replay)});
    ASSERT_EQ(worker->CountErr("Failed to create"), 0U) << worker->err();
    const auto id = std::stoull(worker->Instances().at(0), nullptr, 16);
    Load(*worker, 7, 120);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto said = Said(Replayer(static_cast<std::uint16_t>(replay + rank)).Ask(0), rank);
      ASSERT_FALSE(said.empty());
      std::vector<transport::RouterEvent> told;
      EXPECT_TRUE(reader.Wait([&] {
        told = reader.KvEvents(in_16, rank);
        std::erase_if(told, [&](const auto& event) { return Value(event.worker_id) != id; });
        return Said(told).size() >= said.size();
      }));
      EXPECT_EQ(Said(told), said) << "rank " << rank;
      for (std::size_t i = 0; i < told.size(); ++i) {
        ASSERT_EQ(told[i].event_id, i + 1);
      }
    }
    EXPECT_EQ(worker->Metric("understudy_engine_batches_total", "outcome=\"lost\""), 0.0);
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->WaitExit(), 0);
  }
}

TEST_F(ZmqPorts, ADumpIsWhatTheEventsSay) {
  EventReader reader(nats().url(), ns());
  QueryCaller router(nats().url());
  const auto worker =
      Start(kSmall + Arguments{"--zmq-kv-events-ports", std::to_string(BasePort())});
  Load(*worker, 8, 150);
  ASSERT_TRUE(reader.Wait([&] {
    return worker->Metric("understudy_kv_events_published_total") ==
               static_cast<double>(reader.KvEvents(true).size()) &&
           !reader.KvEvents(true).empty();
  }));
  transport::KvQuery query;
  query.worker_id = std::stoull(worker->Instances().at(0), nullptr, 16);
  const auto subject = ns() + "_backend.worker_kv_indexer_query_dp0-" + worker->Instances().at(0);
  const auto dump = router.Ask(subject, PayloadCodec::kJson, query)["TreeDump"];
  ASSERT_FALSE(dump.is_null()) << router.ack();
  EXPECT_EQ(BlocksOfDump(dump), Apply(reader.KvEvents(true)));
  EXPECT_EQ(dump["last_event_id"].get<std::size_t>(), reader.KvEvents(true).size());
  const auto received = worker->Metric("dynamo_component_kv_publisher_zmq_events_total",
                                       "event_type=\"stored\",stage=\"received\"");
  EXPECT_GT(received.value_or(0), 0);
  EXPECT_EQ(received,
            worker->Metric("dynamo_component_kv_publisher_zmq_events_total",
                           "event_type=\"stored\",stage=\"accepted\""));
}

TEST_F(ZmqPorts, M029_EventsOfStreamsThatDrainAreStillRelayed) {
  EventReader reader(nats().url(), ns());
  const auto worker = Start({"--block-size",
                             "4",
                             "--speedup-ratio",
                             "4",
                             "--zmq-kv-events-ports",
                             std::to_string(BasePort())});
  auto spec = Spec(*worker, 0, 200);
  spec.request.token_ids = Prompt(16, 29);
  const auto call = frontend().Send(spec);
  ASSERT_TRUE(call->WaitTokens(8));
  worker->Signal(SIGTERM);
  ASSERT_TRUE(call->WaitClosed());
  EXPECT_EQ(call->WhyNotWhole(200), "");
  EXPECT_EQ(worker->WaitExit(), 0);
  constexpr std::size_t kWholeBlocks = (16 + 200 - 1) / 4;  // the last token is not computed with
  EXPECT_TRUE(reader.Wait([&] { return Said(reader.KvEvents(true)).size() >= kWholeBlocks; }));
  EXPECT_EQ(Said(reader.KvEvents(true)).size(), kWholeBlocks);
}

TEST_F(ZmqPorts, M030_M031_APortThatIsTakenCostsTheEventsOfItsRankAndNothingElse) {
  EventReader reader(nats().url(), ns());
  fakes::LoopThread thread;
  const auto context = transport::ZmqContext::New();
  auto taken = thread.Do([&] { return std::move(*transport::ZmqPublisher::New(context, {})); });
  const auto bound = thread.Do([&] {
    EXPECT_TRUE(taken->Bind("tcp://0.0.0.0:*"));
    return taken->bound_endpoint();
  });
  const auto worker =
      Start(kSmall + Arguments{"--zmq-kv-events-ports", bound.substr(bound.rfind(':') + 1)});
  EXPECT_TRUE(
      worker->WaitErr("Failed to create ZMQ KV event sink for dp_rank 0: ZMQ PUB bind to "));
  Load(*worker, 9, 20);
  EXPECT_EQ(WhyNotServing(*worker), "");
  EXPECT_EQ(worker->Metric("understudy_kv_events_published_total"), 0.0);
  thread.Do([&] { taken.reset(); });
}

}  // namespace
}  // namespace understudy::worker
