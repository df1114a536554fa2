#include "tests/integration/worker/event_reader.h"

#include "tests/integration/worker/worker_process.h"
#include "understudy/base/assert.h"

#include <utility>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::PayloadCodec;

constexpr std::size_t kFrameMax = std::size_t{1} << 30;

Json Parse(PayloadCodec codec, std::string_view body) {
  return codec == PayloadCodec::kJson ? Json::parse(body) : Json::from_msgpack(body);
}

}  // namespace

EventReader::EventReader(const std::string& nats_url, const std::string& ns)
    : client_(thread_, nats_url) {
  UNDERSTUDY_ASSERT(client_.Start().has_value());
  client_.Subscribe("namespace." + ns + ".>", inbox_);
  UNDERSTUDY_ASSERT(client_.Flush().has_value());
}

std::vector<EventReader::Message> EventReader::Of(const std::string& topic, bool in_16) {
  std::vector<Message> found;
  for (const auto& message : inbox_.WaitFor(0)) {
    const bool of_16 = message.subject.find(".endpoint.") != std::string::npos;
    if (of_16 != in_16 || !message.subject.ends_with("." + topic)) {
      continue;
    }
    auto envelope = transport::DecodeEnvelope(message.payload);
    EXPECT_TRUE(envelope.has_value()) << message.subject;
    if (envelope) {
      found.push_back({message.subject, std::move(*envelope)});
    }
  }
  return found;
}

std::vector<transport::RouterEvent> EventReader::KvEvents(bool in_16, std::uint32_t rank) {
  std::vector<transport::RouterEvent> all;
  for (const auto& message : Of("kv-events", in_16)) {
    const auto events = transport::DecodeRouterEvents(message.envelope.payload);
    EXPECT_TRUE(events.has_value());
    const auto first = static_cast<unsigned char>(message.envelope.payload.front());
    EXPECT_EQ(in_16, (first & 0xF0U) == 0x90U || first == 0xDC) << "1.6 wants an array";
    for (const auto& event : events.value_or(std::vector<transport::RouterEvent>{})) {
      if (Value(event.dp_rank) == rank) {
        all.push_back(event);
      }
    }
  }
  return all;
}

std::vector<transport::ForwardPassMetrics> EventReader::Passes(bool in_16) {
  std::vector<transport::ForwardPassMetrics> all;
  for (const auto& message : Of("forward-pass-metrics", in_16)) {
    auto pass = transport::DecodeForwardPass(message.envelope.payload);
    EXPECT_TRUE(pass.has_value());
    all.push_back(*pass);
  }
  return all;
}

std::vector<transport::SequenceEvent> EventReader::Sequences() {
  std::vector<transport::SequenceEvent> all;
  for (const auto& message : Of("active_sequences_events", true)) {
    auto event = transport::DecodeSequenceEvent(message.envelope.payload);
    EXPECT_TRUE(event.has_value());
    all.push_back(*event);
  }
  return all;
}

bool EventReader::Wait(const std::function<bool()>& condition) {
  return Eventually(condition);
}

void Apply(BlockSet& blocks, const transport::RouterEvent& event) {
  using Kind = transport::RouterEvent::Kind;
  if (event.kind == Kind::kCleared) {
    blocks.clear();
  }
  for (const auto& block : event.blocks) {
    if (event.kind == Kind::kStored) {
      blocks.insert(Value(block.block_hash));
    } else {
      blocks.erase(Value(block.block_hash));
    }
  }
}

BlockSet Apply(const std::vector<transport::RouterEvent>& events) {
  BlockSet blocks;
  for (const auto& event : events) {
    Apply(blocks, event);
  }
  return blocks;
}

BlockSet BlocksOfDump(const Json& dump) {
  BlockSet blocks;
  for (const Json& event : dump.at("events")) {
    const Json& stored = event.at("event").at("data").at("stored");
    const Json& parent = stored.at("parent_hash");
    EXPECT_TRUE(parent.is_null() || blocks.count(parent.get<std::uint64_t>()) == 1)
        << "a child before its parent";
    for (const Json& block : stored.at("blocks")) {
      EXPECT_TRUE(blocks.insert(block.at("block_hash").get<std::uint64_t>()).second);
    }
  }
  return blocks;
}

QueryCaller::QueryCaller(const std::string& nats_url) : client_(thread_, nats_url) {
  UNDERSTUDY_ASSERT(client_.Start().has_value());
}

Json QueryCaller::Ask(const std::string& subject,
                      PayloadCodec codec,
                      const transport::KvQuery& query) {
  const bool as_16 = subject.find("query_source") != std::string::npos;
  return Ask(subject, codec, transport::EncodeKvQuery(codec, query, as_16));
}

Json QueryCaller::Ask(const std::string& subject, PayloadCodec codec, const std::string& body) {
  transport::RequestControl control;
  control.id = control.context = "query";
  control.codec = codec;
  control.response_type = "many_out";
  control.transport = "tcp_server";
  control.address = listener_.address();
  control.subject = "query-subject";
  control.stream_type = "response";
  std::string payload;
  transport::AppendTwoPart(payload, transport::EncodeRequestControl(control), body);
  transport::Inbox acks;
  const std::string reply = client_.Do([](transport::NatsClient& nats) { return nats.NewInbox(); });
  const auto subscription = client_.Subscribe(reply, acks);
  EXPECT_TRUE(client_.Publish(subject, payload, reply).has_value());
  const auto acked = acks.WaitFor(1);
  client_.Do([&](transport::NatsClient& nats) { nats.Unsubscribe(subscription); });
  if (acked.empty() || !acked[0].payload.empty() || acked[0].status) {
    ack_ = acked.empty() ? "none" : acked[0].payload + acked[0].status.value_or("");
    return nullptr;
  }
  const auto peer = listener_.Accept();
  std::string bytes;
  Json item;
  for (int frame = 0; peer && frame < 5; ++frame) {
    auto parsed = transport::ParseTwoPart(bytes, kFrameMax);
    while (!parsed) {
      const auto more = peer->Read(1);
      if (more.empty()) {
        ADD_FAILURE() << "the answer ended after " << frame << " frames";
        return nullptr;
      }
      bytes += more;
      parsed = transport::ParseTwoPart(bytes, kFrameMax);
    }
    if (frame == 2) {
      item = Parse(codec, parsed->body);
      EXPECT_EQ(item["complete_final"], false);
    } else if (frame == 4) {
      EXPECT_EQ(parsed->header, "\"sentinel\"");
    }
    bytes.erase(0, parsed->frame_bytes);
  }
  return item["data"];
}

}  // namespace understudy::worker
