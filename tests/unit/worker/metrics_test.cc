#include "worker/metrics/metrics.h"

#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace understudy::worker {
namespace {

std::set<std::string> FamiliesOf(const std::string& text) {
  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      families.insert(line.substr(7));
    }
  }
  return families;
}

// C-015 and wire.md 9; every name, with its type.
TEST(Metrics, FamiliesAreTheKnownList) {
  auto metrics = Metrics::New();
  auto& probe = metrics->AddEndpoint("ns", "backend", "generate", "1a");
  probe.Failed(ErrorType::kGenerate);
  probe.Refused(RefusalReason::kInvalid);
  metrics->ReplayMissed(true);
  metrics->KvQueryAnswered(KvAnswer::kTreeDump);
  metrics->PrefillCompletionDropped();
  const std::set<std::string> expected = {
      "dynamo_component_requests_total counter",
      "dynamo_component_inflight_requests gauge",
      "dynamo_component_request_duration_seconds histogram",
      "dynamo_component_request_bytes_total counter",
      "dynamo_component_response_bytes_total counter",
      "dynamo_component_cancellation_total counter",
      "dynamo_component_errors_total counter",
      "dynamo_component_kv_publisher_engines_dropped_events_total counter",
      "dynamo_component_uptime_seconds gauge",
      "dynamo_engine_request gauge",
      "dynamo_rejection_request_total counter",
      "dynamo_request_queue gauge",
      "dynamo_work_handler_enqueue_rejected_total counter",
      "dynamo_work_handler_network_transit_seconds histogram",
      "dynamo_work_handler_permit_wait_seconds histogram",
      "dynamo_work_handler_pool_active_tasks gauge",
      "dynamo_work_handler_pool_capacity gauge",
      "dynamo_work_handler_queue_capacity gauge",
      "dynamo_work_handler_queue_depth gauge",
      "dynamo_work_handler_time_to_first_response_seconds histogram",
      "understudy_bad_frames_total counter",
      "understudy_engine_blocks_active gauge",
      "understudy_engine_blocks_total gauge",
      "understudy_engine_passes gauge",
      "understudy_engine_preemptions gauge",
      "understudy_engine_requests_running gauge",
      "understudy_engine_token_gap_modelled_seconds gauge",
      "understudy_engine_token_gaps gauge",
      "understudy_engine_requests_waiting gauge",
      "understudy_forward_pass_messages_failed_total counter",
      "understudy_forward_pass_messages_total counter",
      "understudy_kv_events_doubtful gauge",
      "understudy_kv_events_published_total counter",
      "understudy_kv_messages_not_sent_total counter",
      "understudy_kv_queries_total counter",
      "understudy_lease_losses_total counter",
      "understudy_load_messages_failed_total counter",
      "understudy_load_messages_total counter",
      "understudy_nats_links_lost_total counter",
      "understudy_nats_messages_dropped gauge",
      "understudy_registered gauge",
      "understudy_replay_misses_total counter",
      "understudy_requests_refused_total counter",
      "understudy_response_streams_open gauge",
      "understudy_tokens_sent_total counter",
      "worker_prefill_completion_enqueue_failures_total counter",
  };
  EXPECT_EQ(FamiliesOf(metrics->Scrape(1)), expected);
}

TEST(Metrics, LabelsAreDynamos) {
  auto metrics = Metrics::New();
  auto& probe = metrics->AddEndpoint("ns", "backend", "generate", "1a");
  probe.RequestArrived(100);
  probe.StreamOpened();
  const auto open = metrics->Scrape(2.5);
  const std::string labels =
      R"({dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="ns",worker_id="1a"})";
  EXPECT_NE(open.find("dynamo_component_requests_total" + labels + " 1\n"), std::string::npos)
      << open;
  EXPECT_NE(open.find("dynamo_component_inflight_requests" + labels + " 1\n"), std::string::npos);
  EXPECT_NE(open.find(R"(dynamo_component_uptime_seconds{worker_id="1a"} 2.5)"), std::string::npos);
  probe.StreamClosed(0.02, 77);
  const auto closed = metrics->Scrape(3);
  EXPECT_NE(closed.find("dynamo_component_inflight_requests" + labels + " 0\n"), std::string::npos);
  EXPECT_NE(closed.find("dynamo_component_response_bytes_total" + labels + " 77\n"),
            std::string::npos);
  EXPECT_NE(closed.find("dynamo_component_request_bytes_total" + labels + " 100\n"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy::worker
