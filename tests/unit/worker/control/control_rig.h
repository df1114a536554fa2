// A control server on a loop of its own: the engine and the store are scripted, controllers are raw
// TCP peers.
#pragma once

#include "tests/fakes/fake_nats.h"
#include "tests/fakes/loop_thread.h"
#include "tests/unit/transport/tcp/peer.h"
#include "worker/control/control_server.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace understudy::worker {

using Json = nlohmann::ordered_json;
using transport::PayloadCodec;
using transport::Peer;
using transport::PeerListener;

/// Answers when told to.
class SlowDiscovery final : public transport::Discovery {
 public:
  struct Change {
    std::string what;
    std::function<void(Status)> done;
  };
  std::deque<Change> changes;
  bool answers = true;

  void Start(std::function<void(Result<std::uint64_t>)> done) override { done(std::uint64_t{1}); }
  void Put(std::vector<transport::Record> records, std::function<void(Status)> done) override {
    Take("put " + records.at(0).key + "=" + records.at(0).value, std::move(done));
  }
  void Delete(std::vector<std::string> keys, std::function<void(Status)> done) override {
    Take("delete " + keys.at(0), std::move(done));
  }
  void List(std::string,
            std::function<void(Result<std::vector<transport::Record>>)> done) override {
    done(std::vector<transport::Record>{});
  }
  void OnLease(std::function<void(transport::LeaseState, const std::string&)>) override {}
  void Close(Nanoseconds, std::function<void(Status)> done) override { done({}); }

  std::vector<std::string> calls;

 private:
  void Take(std::string what, std::function<void(Status)> done) {
    calls.push_back(what);
    if (answers) {
      done({});
    } else {
      changes.push_back({std::move(what), std::move(done)});
    }
  }
};

/// Its ranks say what `statuses` and `cleared` hold.
class ScriptedEngine final : public engine::Engine {
 public:
  [[nodiscard]] const engine::Traits& traits() const override { return traits_; }
  Status Start(engine::EngineSink&) override { return {}; }
  Status Submit(engine::Request) override { return {}; }
  void Cancel(RequestId, RankIndex) override {}
  std::string DumpState() override { return "{}"; }
  void Stop() override {}
  void ReadRanks(RankIndex first,
                 std::uint32_t count,
                 std::function<void(std::vector<engine::RankStatus>)> done) override {
    ++reads;
    done(Select(statuses, first, count));
  }
  void ClearCache(RankIndex first,
                  std::uint32_t count,
                  engine::InUse in_use,
                  std::function<void(std::vector<engine::CacheCleared>)> done) override {
    asked_in_use = in_use;
    done(Select(cleared, first, count));
  }

  std::vector<engine::RankStatus> statuses;
  std::vector<engine::CacheCleared> cleared;
  engine::InUse asked_in_use{};
  std::atomic<int> reads{0};

 private:
  template <class T>
  static std::vector<T> Select(const std::vector<T>& all, RankIndex first, std::uint32_t count) {
    std::vector<T> some;
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const T& one) {
      return one.rank >= first && Value(one.rank) - Value(first) < count;
    });
    return some;
  }
  engine::Traits traits_;
};

/// Reads the frames of one answer.
class AnswerReader {
 public:
  AnswerReader(std::unique_ptr<Peer> peer, PayloadCodec codec)
      : peer_(std::move(peer)), codec_(codec) {}

  /// The next frame: a header as its text, a body parsed; null when the connection ended.
  Json Next() {
    constexpr std::size_t kBodyMax = std::size_t{1} << 24;
    if (!Have(transport::kTwoPartHeadBytes)) {
      return nullptr;
    }
    const auto head = *transport::ParseTwoPartHead(bytes_, kBodyMax);
    if (!Have(transport::kTwoPartHeadBytes + head.header_bytes + head.body_bytes)) {
      return nullptr;
    }
    const auto frame = *transport::ParseTwoPart(bytes_, kBodyMax);
    const Json parsed = frame.body.empty()              ? Json::parse(frame.header)
                        : codec_ == PayloadCodec::kJson ? Json::parse(frame.body)
                                                        : Json::from_msgpack(frame.body);
    bytes_.erase(0, frame.frame_bytes);
    return parsed;
  }
  /// The data of the next item; what stands before the first one is checked.
  Json Item() {
    if (!std::exchange(opened_, true)) {
      EXPECT_EQ(Next(), (Json{{"subject", "subject"}, {"stream_type", "response"}}));
      EXPECT_EQ(Next(), (Json{{"error", nullptr}}));
    }
    const Json frame = Next();
    if (!frame.is_object() || !frame.contains("data")) {
      return frame;
    }
    return frame["data"].contains("data") ? frame["data"]["data"] : frame["data"];
  }
  /// The message of an error item, which ends the answer.
  std::string Refusal(const std::string& type) {
    const Json item = Item();
    EXPECT_EQ(item.value("event", ""), "error") << item;
    EXPECT_EQ(item["error"].value("error_type", ""), type) << item;
    ExpectEnd();
    return item["error"].value("message", "");
  }
  void ExpectEnd() {
    EXPECT_EQ(Next(), (Json{{"complete_final", true}}));
    EXPECT_EQ(Next(), Json("sentinel"));
  }
  Peer& peer() { return *peer_; }

 private:
  bool Have(std::size_t bytes) {
    if (bytes_.size() < bytes) {
      bytes_ += peer_->Read(bytes - bytes_.size());
    }
    return bytes_.size() >= bytes;
  }
  std::unique_ptr<Peer> peer_;
  PayloadCodec codec_;
  std::string bytes_;
  bool opened_ = false;
};

/// Two workers of two ranks each.
class ControlRig : public ::testing::Test {
 protected:
  static constexpr const char* kControl0 = "ns_backend.control-4d";
  static constexpr const char* kClear0 = "ns_backend.clear_kv_blocks-4d";
  static constexpr const char* kControl1 = "ns_backend.control-4e";

  /// `handoffs` runs on the loop when the streams are there.
  explicit ControlRig(const std::function<HandoffOperations*(ControlRig&)>& handoffs = nullptr,
                      engine::Engine* engine = nullptr) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      engine_.statuses.push_back({RankIndex{rank}, rank + 1, rank + 2, 10 + rank, 20, 100, rank});
      engine_.cleared.push_back({RankIndex{rank}, 5 + rank, 0, false});
    }
    thread_.Do([&] {
      ingress_ = std::make_unique<Ingress>(nats_, *counts_, clock_);
      streams_ = std::make_unique<ControlStreams>(thread_.loop(), *ingress_, *metrics_);
      serving_ = std::make_unique<ServingSwitch>(
          discovery_, [this](std::size_t serving) { serving_count_ = serving; });
      serving_->Registered({{"v1/instances/a", "{a}"}, {"v1/instances/b", "{b}"}});
      ControlServer::Options options;
      options.dp_size = 2;
      options.running = [this](std::uint32_t worker) { return running_[worker].load(); };
      server_ = std::make_unique<ControlServer>(thread_.loop(),
                                                *ingress_,
                                                engine == nullptr ? engine_ : *engine,
                                                *streams_,
                                                *serving_,
                                                handoffs ? handoffs(*this) : nullptr,
                                                *metrics_,
                                                options);
      server_->Add(kControl0, ControlServer::Kind::kControl, 0);
      server_->Add(kClear0, ControlServer::Kind::kClearKvBlocks, 0);
      server_->Add(kControl1, ControlServer::Kind::kControl, 1);
    });
  }
  ~ControlRig() override {
    thread_.Do([this] {
      streams_->CloseAll();
      server_.reset();
      serving_.reset();
      streams_.reset();
    });
  }

  static std::string EnvelopeOf(const std::string& address,
                                PayloadCodec codec,
                                const std::string& body) {
    transport::RequestControl control;
    control.id = control.context = "id";
    control.codec = codec;
    control.response_type = "many_out";
    control.transport = "tcp_server";
    control.address = address;
    control.subject = "subject";
    control.stream_type = "response";
    std::string payload;
    transport::AppendTwoPart(payload, transport::EncodeRequestControl(control), body);
    return payload;
  }
  /// The acknowledgement.
  std::string Send(const std::string& subject, const std::string& payload) {
    return thread_.Do([&] {
      nats_.published.clear();
      ingress_->OnRequest({subject, "reply", std::as_bytes(std::span(payload)), [](const char*) {
                             return std::nullopt;
                           }});
      return nats_.published.empty() ? std::string("nothing") : nats_.published.at(0).payload;
    });
  }
  AnswerReader Ask(const std::string& subject,
                   const Json& body,
                   PayloadCodec codec = PayloadCodec::kJson) {
    const auto msgpack = Json::to_msgpack(body);
    EXPECT_EQ(Send(subject,
                   EnvelopeOf(controller_.address(),
                              codec,
                              codec == PayloadCodec::kJson
                                  ? body.dump()
                                  : std::string(msgpack.begin(), msgpack.end()))),
              "");
    return AnswerReader(controller_.Accept(), codec);
  }
  /// Runs the loop until `condition` holds there.
  void Await(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!thread_.Do([&] { return condition(); })) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
  }
  double Metric(const std::string& line) {
    const auto text = thread_.Do([&] { return metrics_->Scrape(); });
    const auto at = text.find("\n" + line + " ");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + line.size() + 2));
  }

  fakes::FakeNats nats_;
  SteadyClock clock_;
  std::unique_ptr<Metrics> counts_ = Metrics::New();
  std::unique_ptr<ControlMetrics> metrics_ = ControlMetrics::New();
  PeerListener controller_;
  ScriptedEngine engine_;
  SlowDiscovery discovery_;
  std::atomic<std::size_t> running_[2] = {0, 0};
  std::size_t serving_count_ = 2;
  fakes::LoopThread thread_;
  std::unique_ptr<Ingress> ingress_;
  std::unique_ptr<ControlStreams> streams_;
  std::unique_ptr<ServingSwitch> serving_;
  std::unique_ptr<ControlServer> server_;
};

}  // namespace understudy::worker
