#include "tests/fuzz/fuzz.h"
#include "understudy/transport/event_payloads.h"
#include "understudy/transport/event_records.h"
#include "understudy/transport/kv_query.h"

using namespace understudy;

namespace {

void CheckQuery(transport::PayloadCodec codec, std::string_view bytes) {
  const auto query = transport::DecodeKvQuery(codec, bytes);
  if (!query) {
    UNDERSTUDY_ASSERT(!query.error().message.empty());
    return;
  }
  const auto again = transport::DecodeKvQuery(codec, transport::EncodeKvQuery(codec, *query, true));
  UNDERSTUDY_ASSERT(again.has_value() && again->worker_id == query->worker_id);
  UNDERSTUDY_ASSERT(again->dp_rank == query->dp_rank);
  UNDERSTUDY_ASSERT(again->start_event_id == query->start_event_id);
  UNDERSTUDY_ASSERT(again->end_event_id == query->end_event_id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  CheckQuery(transport::PayloadCodec::kJson, bytes);
  CheckQuery(transport::PayloadCodec::kMsgpack, bytes);
  if (const auto pass = transport::DecodeForwardPass(bytes)) {
    std::string again;
    transport::EncodeForwardPass(again, *pass);
    UNDERSTUDY_ASSERT(transport::DecodeForwardPass(again).has_value());
  }
  if (const auto event = transport::DecodeSequenceEvent(bytes)) {
    std::string again;
    transport::AppendSequenceEvent(again, *event);
    UNDERSTUDY_ASSERT(transport::DecodeSequenceEvent(again).has_value());
  }
  if (const auto channel = transport::DecodeEventChannel(bytes)) {
    const auto record = transport::EncodeEventChannel(channel->channel, channel->transport);
    const auto again = transport::DecodeEventChannel(record.value);
    UNDERSTUDY_ASSERT(again.has_value() && again->channel.topic == channel->channel.topic);
    UNDERSTUDY_ASSERT(again->transport.address == channel->transport.address);
  }
  return 0;
}
