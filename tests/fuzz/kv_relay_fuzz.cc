#include "tests/fuzz/fuzz.h"
#include "understudy/transport/kv_batch.h"
#include "understudy/transport/router_event.h"
#include "worker/kv_relay/converter.h"
#include "worker/kv_relay/engine_batch_order.h"
#include "worker/kv_relay/publisher.h"
#include "worker/log/log.h"
#include "worker/relay/follower.h"

#include <string>
#include <utility>
#include <vector>

using namespace understudy;

namespace {

constexpr std::size_t kEventBytesMax = 4096;

worker::KvEventConverter::Options ConverterOptions() {
  worker::KvEventConverter::Options options;
  options.worker_id = WorkerId{1001};
  options.block_size = 4;
  options.rules = worker::kKvConversion16;
  return options;
}

/// From what an engine sent to what routers get: every event can be read, and no id is missing.
class Rank final : public worker::EngineBatchOrder::Sink {
 public:
  Rank()
      : converter_(ConverterOptions()),
        publisher_({WorkerId{1001}, DpRank{0}, {}, true}, TimePoint{}) {}

  void OnBatch(std::string_view payload, bool /*replayed*/) override {
    const auto batch = transport::DecodeKvBatch(payload);
    if (batch) {
      std::vector<transport::RouterEvent> events;
      converter_.Convert(*batch, events);
      Publish(std::move(events));
    }
  }
  void OnLost(std::uint64_t batches) override { UNDERSTUDY_ASSERT(batches > 0); }
  void OnRestart() override {
    std::vector<transport::RouterEvent> events;
    converter_.Restart(events);
    Publish(std::move(events));
  }
  bool RequestReplay(std::uint64_t start) override { return start % 2 == 0; }
  void AbandonReplay() override {}

 private:
  void Publish(std::vector<transport::RouterEvent> events) {
    publisher_.Take(
        std::move(events), TimePoint{}, kEventBytesMax, [&](const transport::RouterEvent& event) {
          UNDERSTUDY_ASSERT(event.event_id == ++last_id_);
          for (const auto form : {transport::kRouterEventForm13, transport::kRouterEventForm16}) {
            const auto read =
                transport::DecodeRouterEvents(transport::EncodeRouterEvents({&event, 1}, form));
            UNDERSTUDY_ASSERT(read.has_value() && read->size() == 1);
            UNDERSTUDY_ASSERT(read->front().blocks == event.blocks);
          }
        });
    UNDERSTUDY_ASSERT(publisher_.lost() == 0);
  }

  worker::KvEventConverter converter_;
  worker::RankPublisher publisher_;
  std::uint64_t last_id_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool kQuiet = [] {
    worker::ConfigureLog("error", false);
    return true;
  }();
  (void)kQuiet;
  const std::string_view bytes = fuzz::View(data, size);
  Rank rank;
  worker::EngineBatchOrder order(rank, {16, 1U << 20});
  order.Begin();
  for (std::size_t i = 0; i < 24; ++i) {  // the bytes also say which numbers come, live or replayed
    const std::uint8_t step = bytes.empty() ? 0 : static_cast<std::uint8_t>(bytes[i % size]);
    const std::uint64_t number = step % 8 + i / 2;
    if (step % 7 == 0) {
      order.ReplayEnded();
    } else if (step % 3 == 0) {
      (void)order.Replayed(number, bytes);
    } else {
      order.Live(number, bytes);
    }
  }
  order.ReplayEnded();
  const std::vector<transport::Record> records = {{"v1/x/1", std::string(bytes)}};
  (void)worker::JoinInstances(records, records);
  return 0;
}
