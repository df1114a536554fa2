// The relay against recordings of both releases' own: from the frames of an engine to the payloads
// of the event plane, byte by byte. Where ours does better on purpose, both answers and the reason
// stand here.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/kv_batch.h"
#include "worker/kv_relay/converter.h"
#include "worker/kv_relay/publisher.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

using transport::RouterEvent;
using transport::golden::FromHex;
using transport::golden::Json;
using Payloads = std::vector<std::string>;

/// All that differs between the releases here.
struct Release {
  std::string file;
  KvConversionRules rules;
  transport::RouterEventForm form;
  bool merge_units;
};
const Release kRelease13{
    "events/zmq_relay_1.3.0.json", kKvConversion13, transport::kRouterEventForm13, false};
const Release kRelease16{
    "events/zmq_relay_1.6.1.json", kKvConversion16, transport::kRouterEventForm16, true};

constexpr std::size_t kMessageBytes = 900'000;
constexpr TimePoint kStart = TimePoint(std::chrono::hours(1));

std::optional<std::uint32_t> Maybe(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::uint32_t>());
}

/// The relay without its sockets: one converter, one publisher for each rank.
class Relay {
 public:
  Relay(const Release& release, const Json& publisher)
      : release_(release), worker_id_{publisher["worker_id"].get<std::uint64_t>()} {
    KvEventConverter::Options options;
    options.worker_id = worker_id_;
    options.dp_rank = DpRank{publisher["publisher_dp_rank"].get<std::uint32_t>()};
    options.block_size = publisher["kv_block_size"];
    options.image_token_id = Maybe(publisher["image_token_id"]);
    options.rules = release.rules;
    converter_ = std::make_unique<KvEventConverter>(options);
    batching_.window =
        std::chrono::milliseconds(Maybe(publisher["batching_timeout_ms"]).value_or(0));
    batching_.merge_units = release.merge_units;
    topic_ = publisher["zmq_topic"];
  }

  void OnFrames(const std::vector<std::string>& frames) {
    if (frames[0].compare(0, topic_.size(), topic_) != 0) {
      return;  // the SUB socket's own filter
    }
    const std::vector<std::string_view> views(frames.begin(), frames.end());
    const auto message = transport::ParseEngineMessage(views);
    if (!message) {
      return;
    }
    const auto batch = transport::DecodeKvBatch(message->payload);
    if (!batch) {
      return;
    }
    std::vector<RouterEvent> events;
    converter_->Convert(*batch, events);
    if (!events.empty()) {
      RankPublisher& rank = Rank(events.front().dp_rank);
      Send([&](const RankPublisher::Sink& sink) {
        rank.Take(std::move(events), kStart + std::chrono::seconds(1), kMessageBytes, sink);
      });
    }
  }

  Payloads End() {
    for (auto& [number, rank] : ranks_) {
      Send([&, &publisher = *rank](const RankPublisher::Sink& sink) {
        publisher.Flush(kStart + std::chrono::seconds(2), kMessageBytes, sink);
      });
    }
    return std::move(payloads_);
  }

 private:
  RankPublisher& Rank(DpRank number) {
    auto& rank = ranks_[number];
    if (rank == nullptr) {
      RankPublisher::Options options;
      options.worker_id = worker_id_;
      options.dp_rank = number;
      options.batching = batching_;
      rank = std::make_unique<RankPublisher>(options, kStart);
    }
    return *rank;
  }

  template <class F>
  void Send(F produce) {
    std::vector<RouterEvent> events;
    produce([&](const RouterEvent& event) { events.push_back(event); });
    if (release_.form.in_array && !events.empty()) {
      payloads_.push_back(EncodeRouterEvents(events, release_.form));
      return;
    }
    for (const RouterEvent& event : events) {
      payloads_.push_back(EncodeRouterEvents(std::span(&event, 1), release_.form));
    }
  }

  const Release& release_;
  WorkerId worker_id_;
  BatchingOptions batching_;
  std::string topic_;
  std::unique_ptr<KvEventConverter> converter_;
  std::map<DpRank, std::unique_ptr<RankPublisher>> ranks_;
  Payloads payloads_;
};

// ---- where ours differs ----

constexpr TokensHash k1234{14643705804678351452U};  // tokens 1, 2, 3, 4
constexpr TokensHash k5678{16777012769546811212U};

struct OurEvent {
  std::uint64_t id = 0;
  std::vector<transport::RouterBlock> blocks;
  std::uint32_t rank = 0;
  RouterEvent::Kind kind = RouterEvent::Kind::kStored;
};
/// One inner list for each message of 1.6; 1.3 sends each event by itself.
using OurMessages = std::vector<std::vector<OurEvent>>;

transport::RouterBlock Block(std::uint64_t hash, TokensHash tokens) {
  return {BlockHash{hash}, tokens};
}

Payloads Encode(const OurMessages& messages, const Release& release) {
  Payloads payloads;
  for (const auto& message : messages) {
    std::vector<RouterEvent> events;
    for (const OurEvent& ours : message) {
      RouterEvent& event = events.emplace_back();
      event.worker_id = WorkerId{1001};
      event.dp_rank = DpRank{ours.rank};
      event.event_id = ours.id;
      event.kind = ours.kind;
      event.blocks = ours.blocks;
    }
    if (release.form.in_array) {
      payloads.push_back(EncodeRouterEvents(events, release.form));
      continue;
    }
    for (const RouterEvent& event : events) {
      payloads.push_back(EncodeRouterEvents(std::span(&event, 1), release.form));
    }
  }
  return payloads;
}

struct Difference {
  std::string reason;
  OurMessages ours;
};

const std::map<std::string, Difference>& DifferencesInBoth() {
  static const std::map<std::string, Difference> kDifferences = {
      {"stored_bytes_hash",
       {"vLLM's own integers are the last 8 bytes: the events of both settings name one block",
        {{{1, {Block(0x1111111111111111U, k1234), Block(0x2222222222222222U, k5678)}}}}}},
      {"stored_bytes8_hash", {"the same", {{{1, {Block(0x1111111111111111U, k1234)}}}}}},
      {"batch_as_map", {"the newest vLLM sends this", {{{1, {Block(11, k1234)}}}}}},
      {"batch_two_elems", {"SGLang sent this", {{{1, {Block(11, k1234)}}}}}},
      {"unknown_tag_poisons_batch",
       {"one event that cannot be read costs only itself",
        {{{1, {Block(11, k1234)}}, {2, {Block(12, k5678)}}},
         {{3, {Block(13, TokensHash{483935686894639516U})}}}}}},
      {"lora_id_negative",
       {"the number is thrown away, so it cannot be wrong", {{{1, {Block(11, k1234)}}}}}},
      {"dp_negative", {"nobody serves rank 4294967295: the batch is refused", {}}},
      {"dp_3",
       {"ids are contiguous for each rank, which is what the routers check",
        {{{1, {Block(11, k1234)}, 3}}, {{1, {Block(11, k1234)}, 0}}}}},
      {"rank_switch",
       {"the same",
        {{{1, {Block(11, k1234)}, 0}},
         {{1, {Block(11, k1234)}, 1}},
         {{2, {Block(11, {})}, 1, RouterEvent::Kind::kRemoved}}}}},
  };
  return kDifferences;
}

const std::map<std::string, Difference>& DifferencesIn13() {
  static const std::map<std::string, Difference> kDifferences = {
      {"trailing_full",
       {"engines that say the locality are read by position, as 1.6 does: LOCAL is no kind",
        {{{1, {Block(11, k1234)}}}}}},
      {"sglang_meta",
       {"metadata costs no batch; the salt stays out of the hash, as 1.3 frontends know none",
        {{{1, {Block(11, k1234)}}}}}},
  };
  return kDifferences;
}

const Difference* FindDifference(const std::string& name, bool is_13) {
  const auto in_both = DifferencesInBoth().find(name);
  if (in_both != DifferencesInBoth().end()) {
    return &in_both->second;
  }
  const auto in_13 = DifferencesIn13().find(name);
  return is_13 && in_13 != DifferencesIn13().end() ? &in_13->second : nullptr;
}

// ---- the cases ----

struct Case {
  const Release* release;
  Json json;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Release* release : {&kRelease13, &kRelease16}) {
    for (Json& json : transport::golden::Load(release->file)) {
      cases.push_back({release, std::move(json)});
    }
  }
  return cases;
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.release->file << ": " << one.json["note"];
}

std::string Hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4U];
    hex += kDigits[static_cast<unsigned char>(byte) & 15U];
  }
  return hex;
}

std::vector<std::string> HexOf(const Payloads& payloads) {
  std::vector<std::string> hex;
  for (const std::string& payload : payloads) {
    hex.push_back(Hex(payload));
  }
  return hex;
}

class ZmqRelay : public ::testing::TestWithParam<Case> {};

TEST_P(ZmqRelay, PublishesWhatTheReleaseDoesOrBetter) {
  const Json& recorded = GetParam().json;
  Relay relay(*GetParam().release, recorded["publisher"]);
  for (const Json& message : recorded["input_frames_hex"]) {
    std::vector<std::string> frames;
    for (const Json& frame : message) {
      frames.push_back(FromHex(frame));
    }
    relay.OnFrames(frames);
  }
  const std::vector<std::string> ours = HexOf(relay.End());

  const auto theirs = recorded["output_hex"].get<std::vector<std::string>>();
  const Difference* difference =
      FindDifference(recorded["name"], GetParam().release == &kRelease13);
  if (difference == nullptr) {
    EXPECT_EQ(ours, theirs);
    return;
  }
  EXPECT_NE(theirs, ours) << "no difference any more: " << difference->reason;
  EXPECT_EQ(ours, HexOf(Encode(difference->ours, *GetParam().release))) << difference->reason;
}

std::string Name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.json["name"].get<std::string>() +
         (info.param.release == &kRelease13 ? "_13" : "_16");
}

INSTANTIATE_TEST_SUITE_P(Recorded, ZmqRelay, ::testing::ValuesIn(Cases()), Name);

TEST(ZmqRelayVectors, HoldAllCasesOfBothReleases) {
  EXPECT_EQ(transport::golden::Load(kRelease13.file).size(), 82U);
  EXPECT_EQ(transport::golden::Load(kRelease16.file).size(), 82U);
}

}  // namespace
}  // namespace understudy::worker
