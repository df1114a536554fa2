#include "worker/metrics/metrics.h"

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace understudy::worker {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

constexpr std::array kErrorNames = {"deserialization",
                                    "invalid_message",
                                    "response_stream",
                                    "generate",
                                    "publish_response",
                                    "publish_final"};
constexpr std::array kReasonNames = {
    "invalid", "too_large", "overloaded", "duplicate", "unservable"};

constexpr std::array kAnswerNames = {"events", "tree_dump", "too_new", "invalid_range", "error"};

const Histogram::BucketBoundaries kDurationBuckets = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600};
const Histogram::BucketBoundaries kTransitBuckets = {
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1};
const Histogram::BucketBoundaries kPermitBuckets = {
    0.0001, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60};
const Histogram::BucketBoundaries kFirstResponseBuckets = {
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

struct Families {
  explicit Families(prometheus::Registry& r)
      : requests(Count(r,
                       "dynamo_component_requests_total",
                       "Total number of requests processed by this endpoint")),
        inflight(Level(r,
                       "dynamo_component_inflight_requests",
                       "Number of requests currently being processed")),
        duration(Spread(r,
                        "dynamo_component_request_duration_seconds",
                        "Time from decoding a request to the end of its stream")),
        request_bytes(Count(
            r, "dynamo_component_request_bytes_total", "Total bytes of request payloads received")),
        response_bytes(Count(
            r, "dynamo_component_response_bytes_total", "Total bytes of response bodies sent")),
        cancellation(Count(r,
                           "dynamo_component_cancellation_total",
                           "Total number of requests cancelled by the client")),
        errors(
            Count(r, "dynamo_component_errors_total", "Total number of failed requests by type")),
        dropped_events(Count(r,
                             "dynamo_component_kv_publisher_engines_dropped_events_total",
                             "KV events that an engine announced and the publisher never saw")),
        uptime(Level(r, "dynamo_component_uptime_seconds", "Seconds since the process started")),
        refused(Count(r, "understudy_requests_refused_total", "Requests turned away, by reason")),
        tokens(Count(r, "understudy_tokens_sent_total", "Tokens written to response streams")),
        running(Level(r,
                      "understudy_engine_requests_running",
                      "Requests in the running batch, over the worker's ranks")),
        waiting(Level(r,
                      "understudy_engine_requests_waiting",
                      "Requests waiting for a slot, over the worker's ranks")),
        blocks_active(Level(r,
                            "understudy_engine_blocks_active",
                            "KV blocks in use by requests, over the worker's ranks")),
        blocks_total(Level(
            r, "understudy_engine_blocks_total", "KV blocks in all, over the worker's ranks")),
        preemptions(Level(r,
                          "understudy_engine_preemptions",
                          "Preemptions since start, over the worker's ranks")),
        passes(Level(r,
                     "understudy_engine_passes",
                     "Scheduler passes since start, over the worker's ranks")),
        gaps(Level(r,
                   "understudy_engine_token_gaps",
                   "Tokens since start that followed another one of their request")),
        gap_seconds(Level(r,
                          "understudy_engine_token_gap_modelled_seconds",
                          "Sum of the modelled times between those tokens")) {}

  static Family<Counter>& Count(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(r);
  }
  static Family<Gauge>& Level(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(r);
  }
  static Family<Histogram>& Spread(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(r);
  }

  Family<Counter>& requests;
  Family<Gauge>& inflight;
  Family<Histogram>& duration;
  Family<Counter>&request_bytes, &response_bytes, &cancellation, &errors, &dropped_events;
  Family<Gauge>& uptime;
  Family<Counter>&refused, &tokens;
  Family<Gauge>&running, &waiting, &blocks_active, &blocks_total, &preemptions, &passes, &gaps,
      &gap_seconds;
};

class Probe final : public EndpointProbe {
 public:
  Probe(Families& families, const Labels& labels)
      : families_(families),
        labels_(labels),
        requests_(families.requests.Add(labels)),
        inflight_(families.inflight.Add(labels)),
        duration_(families.duration.Add(labels, kDurationBuckets)),
        request_bytes_(families.request_bytes.Add(labels)),
        response_bytes_(families.response_bytes.Add(labels)),
        cancellation_(families.cancellation.Add(labels)),
        tokens_(families.tokens.Add(labels)),
        running_(families.running.Add(labels)),
        waiting_(families.waiting.Add(labels)),
        blocks_active_(families.blocks_active.Add(labels)),
        blocks_total_(families.blocks_total.Add(labels)),
        preemptions_(families.preemptions.Add(labels)),
        passes_(families.passes.Add(labels)),
        gaps_(families.gaps.Add(labels)),
        gap_seconds_(families.gap_seconds.Add(labels)) {}

  void RequestArrived(std::uint64_t bytes) override {
    requests_.Increment();
    request_bytes_.Increment(static_cast<double>(bytes));
  }
  void StreamOpened() override { inflight_.Increment(); }
  void StreamClosed(double seconds, std::uint64_t response_bytes) override {
    inflight_.Decrement();
    duration_.Observe(seconds);
    response_bytes_.Increment(static_cast<double>(response_bytes));
  }
  void Cancelled() override { cancellation_.Increment(); }
  void Failed(ErrorType type) override {  // series appear on first use
    With("error_type", kErrorNames[static_cast<std::size_t>(type)], families_.errors).Increment();
  }
  void Refused(RefusalReason reason) override {
    With("reason", kReasonNames[static_cast<std::size_t>(reason)], families_.refused).Increment();
  }
  void TokensSent(std::uint64_t count) override { tokens_.Increment(static_cast<double>(count)); }
  void Load(const engine::Load& sum) override {
    running_.Set(sum.requests_running);
    waiting_.Set(sum.requests_waiting);
    blocks_active_.Set(static_cast<double>(sum.blocks_active));
    blocks_total_.Set(static_cast<double>(sum.blocks_total));
    preemptions_.Set(static_cast<double>(sum.preemptions_total));
    passes_.Set(static_cast<double>(sum.passes_total));
    gaps_.Set(static_cast<double>(sum.token_gaps_total));
    gap_seconds_.Set(static_cast<double>(sum.token_gap_ns_total) * 1e-9);
  }

 private:
  Counter& With(const char* name, const char* value, Family<Counter>& family) {
    auto labels = labels_;
    labels[name] = value;
    return family.Add(labels);
  }

  Families& families_;
  Labels labels_;
  Counter& requests_;
  Gauge& inflight_;
  Histogram& duration_;
  Counter &request_bytes_, &response_bytes_, &cancellation_, &tokens_;
  Gauge &running_, &waiting_, &blocks_active_, &blocks_total_, &preemptions_, &passes_, &gaps_,
      &gap_seconds_;
};

class PrometheusMetrics final : public Metrics {
 public:
  PrometheusMetrics()
      : families_(registry_),
        transit_(Families::Spread(registry_,
                                  "dynamo_work_handler_network_transit_seconds",
                                  "Time from the frontend's send to the worker's receive")
                     .Add({}, kTransitBuckets)),
        first_response_(Families::Spread(registry_,
                                         "dynamo_work_handler_time_to_first_response_seconds",
                                         "Time from receiving a request to its prologue")
                            .Add({}, kFirstResponseBuckets)),
        bad_frames_(OneCount("understudy_bad_frames_total", "Requests without a usable envelope")),
        nats_drops_(OneCount("understudy_nats_links_lost_total", "Lost connections to NATS")),
        nats_messages_(
            OneLevel("understudy_nats_messages_dropped", "Messages the NATS client dropped")),
        lease_losses_(
            OneCount("understudy_lease_losses_total", "Times the discovery lease ran out")),
        registered_(
            OneLevel("understudy_registered", "1 while the worker is visible in discovery")),
        load_ok_(OneCount("understudy_load_messages_total", "Load messages published")),
        load_failed_(OneCount("understudy_load_messages_failed_total", "Load messages not sent")),
        passes_ok_(
            OneCount("understudy_forward_pass_messages_total", "Forward-pass messages published")),
        passes_failed_(OneCount("understudy_forward_pass_messages_failed_total",
                                "Forward-pass messages not sent")),
        kv_events_(OneCount("understudy_kv_events_published_total",
                            "KV events that got an id, once whatever the releases served")),
        kv_not_sent_(OneCount("understudy_kv_messages_not_sent_total",
                              "KV event messages that the event plane did not take")),
        kv_doubtful_(OneLevel("understudy_kv_events_doubtful",
                              "Stored blocks without a known parent, or beyond the index")),
        kv_queries_(Families::Count(
            registry_, "understudy_kv_queries_total", "Recovery queries of routers, by answer")),
        prefill_dropped_(Families::Count(registry_,
                                         "worker_prefill_completion_enqueue_failures_total",
                                         "Prefill completions that routers were not told of")),
        streams_(OneLevel("understudy_response_streams_open",
                          "Response connections, finishing ones too")),
        engine_requests_(OneLevel("dynamo_engine_request", "Requests that the engine holds")),
        pool_active_(OneLevel("dynamo_work_handler_pool_active_tasks", "Requests being served")),
        rejections_(
            OneCount("dynamo_rejection_request_total", "Requests refused for lack of room")),
        replay_misses_(Families::Count(registry_,
                                       "understudy_replay_misses_total",
                                       "Requests whose planned answer is not there, by reason")) {
    // Dashboards read these; there is no pool and no queue between the request plane and the
    // engine: they stay 0, as the reference's do on the NATS plane.
    for (const auto* name : {"dynamo_request_queue",
                             "dynamo_work_handler_pool_capacity",
                             "dynamo_work_handler_queue_capacity",
                             "dynamo_work_handler_queue_depth"}) {
      Families::Level(registry_, name, "Not used by this worker").Add({});
    }
    Families::Count(
        registry_, "dynamo_work_handler_enqueue_rejected_total", "Not used by this worker")
        .Add({});
    Families::Spread(
        registry_, "dynamo_work_handler_permit_wait_seconds", "Not used by this worker")
        .Add({}, kPermitBuckets);
  }

  EndpointProbe& AddEndpoint(const std::string& ns,
                             const std::string& component,
                             const std::string& endpoint,
                             const std::string& worker_id) override {
    const Labels labels = {{"dynamo_namespace", ns},
                           {"dynamo_component", component},
                           {"dynamo_endpoint", endpoint},
                           {"worker_id", worker_id}};
    lost_events_ =
        &families_.dropped_events.Add({{"dynamo_namespace", ns}, {"dynamo_component", component}});
    uptimes_.push_back(&families_.uptime.Add({{"worker_id", worker_id}}));
    return probes_.emplace_back(families_, labels);
  }
  void NetworkTransit(double seconds) override { transit_.Observe(seconds); }
  void TimeToFirstResponse(double seconds) override { first_response_.Observe(seconds); }
  void BadFrame() override { bad_frames_.Increment(); }
  void NatsDropped() override { nats_drops_.Increment(); }
  void NatsMessagesDropped(std::uint64_t total) override {
    nats_messages_.Set(static_cast<double>(total));
  }
  void LeaseLost() override { lease_losses_.Increment(); }
  void Registered(bool registered) override { registered_.Set(registered ? 1 : 0); }
  void LoadPublished(bool ok) override { (ok ? load_ok_ : load_failed_).Increment(); }
  void ForwardPassPublished(bool ok) override { (ok ? passes_ok_ : passes_failed_).Increment(); }
  void PrefillCompletionDropped() override {
    prefill_dropped_.Add({{"reason", "full"}}).Increment();
  }
  void KvEventsPublished(std::uint64_t events) override {
    kv_events_.Increment(static_cast<double>(events));
  }
  void KvMessageNotSent() override { kv_not_sent_.Increment(); }
  void KvEventsLost(std::uint64_t count) override {
    if (lost_events_ != nullptr) {
      lost_events_->Increment(static_cast<double>(count));
    }
  }
  void KvEventsDoubtful(std::uint64_t total) override {
    kv_doubtful_.Set(static_cast<double>(total));
  }
  void KvQueryAnswered(KvAnswer answer) override {
    kv_queries_.Add({{"answer", kAnswerNames[static_cast<std::size_t>(answer)]}}).Increment();
  }
  void OpenStreams(std::uint64_t open, std::uint64_t running) override {
    streams_.Set(static_cast<double>(open));
    engine_requests_.Set(static_cast<double>(running));
    pool_active_.Set(static_cast<double>(running));
  }
  void Rejected() override { rejections_.Increment(); }
  void ReplayMissed(bool no_trace) override {
    replay_misses_.Add({{"reason", no_trace ? "no_trace" : "unknown_key"}}).Increment();
  }

  std::string Scrape(double uptime_s) override {
    for (auto* uptime : uptimes_) {
      uptime->Set(uptime_s);
    }
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  Counter& OneCount(const char* name, const char* help) {
    return Families::Count(registry_, name, help).Add({});
  }
  Gauge& OneLevel(const char* name, const char* help) {
    return Families::Level(registry_, name, help).Add({});
  }
  prometheus::Registry registry_;
  Families families_;
  Histogram &transit_, &first_response_;
  Counter &bad_frames_, &nats_drops_;
  Gauge& nats_messages_;
  Counter& lease_losses_;
  Gauge& registered_;
  Counter &load_ok_, &load_failed_, &passes_ok_, &passes_failed_, &kv_events_, &kv_not_sent_;
  Gauge& kv_doubtful_;
  Family<Counter>&kv_queries_, &prefill_dropped_;
  Counter* lost_events_ = nullptr;
  Gauge &streams_, &engine_requests_, &pool_active_;
  Counter& rejections_;
  Family<Counter>& replay_misses_;
  std::deque<Probe> probes_;
  std::vector<Gauge*> uptimes_;
};

}  // namespace

std::unique_ptr<Metrics> Metrics::New() {
  return std::make_unique<PrometheusMetrics>();
}

}  // namespace understudy::worker
