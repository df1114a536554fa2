#include "worker/replay/report_json.h"

#include <string_view>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::ordered_json;

void PutDistribution(ordered_json& json,
                     const std::string& name,
                     const mocker::Distribution& values) {
  json["mean_" + name] = values.mean;
  json["min_" + name] = values.min;
  json["max_" + name] = values.max;
  json["median_" + name] = values.median;
  json["p75_" + name] = values.p75;
  json["p90_" + name] = values.p90;
  json["p95_" + name] = values.p95;
  json["p99_" + name] = values.p99;
  json["std_" + name] = values.std;
}

ordered_json ReferenceKeys(const mocker::ReplayReport& r) {
  ordered_json json{
      {"num_requests", r.num_requests},
      {"completed_requests", r.completed_requests},
      {"total_input_tokens", r.total_input_tokens},
      {"total_output_tokens", r.total_output_tokens},
      {"duration_ms", r.duration_ms},
      {"wall_time_ms", r.wall_time_ms},
      {"request_throughput_rps", r.request_throughput_rps},
      {"input_throughput_tok_s", r.input_throughput_tok_s},
      {"output_throughput_tok_s", r.output_throughput_tok_s},
      {"total_throughput_tok_s", r.total_throughput_tok_s},
      {"prefill_worker_seconds", r.prefill_worker_seconds},
      {"decode_worker_seconds", r.decode_worker_seconds},
      {"prefill_gpus_per_worker", r.prefill_gpus_per_worker},
      {"decode_gpus_per_worker", r.decode_gpus_per_worker},
      {"gpu_hours", r.gpu_hours},
  };
  if (r.goodput) {
    json["goodput_completed_requests"] = r.goodput->completed_requests;
    json["goodput_request_throughput_rps"] = r.goodput->request_throughput_rps;
    json["goodput_output_throughput_tok_s"] = r.goodput->output_throughput_tok_s;
  }
  json["processed_tokens"] = r.processed_tokens;
  json["processed_tokens_per_s"] = r.processed_tokens_per_s;
  json["processed_output_tokens_per_s"] = r.processed_output_tokens_per_s;
  json["prefix_cache_reused_ratio"] = r.prefix_cache_reused_ratio;
  json["first_admission_prefix_cache_reused_ratio"] = r.first_admission_prefix_cache_reused_ratio;
  PutDistribution(json, "ttft_ms", r.ttft);
  PutDistribution(json, "ttst_ms", r.ttst);
  PutDistribution(json, "tpot_ms", r.tpot);
  PutDistribution(json, "itl_ms", r.itl);
  PutDistribution(json, "e2e_latency_ms", r.e2e_latency);
  PutDistribution(json, "output_token_throughput_per_user", r.output_token_throughput_per_user);
  if (r.release == mocker::SemanticsRelease::k16) {
    json["kv_eviction_policy"] = "lru";
    json["committed_prefill_tokens"] = r.committed_prefill_tokens;
    json["num_ttft_samples"] = r.ttft.count;
    json["num_tpot_samples"] = r.tpot.count;
    json["num_e2e_latency_samples"] = r.e2e_latency.count;
    json["power_w"] = nullptr;  // no performance model here knows energy
    json["power_coverage"] = nullptr;
  }
  return json;
}

void Push(ordered_json& array, const std::optional<double>& value) {
  array.push_back(value ? ordered_json(*value) : ordered_json());
}
void Push(ordered_json& array, double value) {
  array.push_back(value);
}
void Push(ordered_json& array, std::uint64_t value) {
  array.push_back(value);
}

ordered_json SeriesJson(const mocker::ReplaySeries& series) {
  ordered_json json{{"bucket_ms", series.bucket_ms}};
  const auto column = [&](const char* name, auto member) {
    auto& array = json[name] = ordered_json::array();
    for (const auto& bucket : series.buckets) {
      Push(array, bucket.*member);
    }
  };
  using Bucket = mocker::ReplayBucket;
  column("start_ms", &Bucket::start_ms);
  column("ttft_p50_ms", &Bucket::ttft_p50_ms);
  column("ttft_p99_ms", &Bucket::ttft_p99_ms);
  column("itl_p50_ms", &Bucket::itl_p50_ms);
  column("itl_p99_ms", &Bucket::itl_p99_ms);
  column("waiting_mean", &Bucket::waiting_mean);
  column("running_mean", &Bucket::running_mean);
  column("waiting_max", &Bucket::waiting_max);
  column("cache_hit_ratio", &Bucket::cache_hit_ratio);
  column("blocks_used_ratio", &Bucket::blocks_used_ratio);
  column("arrivals_rps", &Bucket::arrivals_rps);
  column("completed_rps", &Bucket::completed_rps);
  column("output_tok_s", &Bucket::output_tok_s);
  column("input_tok_s", &Bucket::input_tok_s);
  return json;
}

ordered_json OwnKeys(const mocker::ReplayReport& r, const ReplayRunInfo& info) {
  ordered_json json{
      {"version", info.version},
      {"seed", info.seed},
      {"command", info.command_line},
      {"end", ReplayEndName(r.end)},
      {"rejected_requests", r.rejected_requests},
      {"failed_requests", r.failed_requests},
      {"preemptions", r.preemptions},
      {"passes", r.passes},
  };
  auto& configuration = json["configuration"] = ordered_json::object();
  for (const auto& [name, value] : info.configuration) {
    configuration[name] = value;
  }
  // 0 = exact. Beyond a bound of different values a distribution is read from a histogram.
  json["relative_error"] = {
      {"ttft_ms", r.ttft.relative_error},
      {"ttst_ms", r.ttst.relative_error},
      {"tpot_ms", r.tpot.relative_error},
      {"itl_ms", r.itl.relative_error},
      {"e2e_latency_ms", r.e2e_latency.relative_error},
      {"output_token_throughput_per_user", r.output_token_throughput_per_user.relative_error},
  };
  json["series"] = SeriesJson(r.series);
  return json;
}

}  // namespace

const char* ReplayEndName(mocker::ReplayEnd end) {
  switch (end) {
    case mocker::ReplayEnd::kSimTimeReached:
      return "sim_time_reached";
    case mocker::ReplayEnd::kStopped:
      return "stopped";
    case mocker::ReplayEnd::kWorkloadDone:
      break;
  }
  return "workload_done";
}

std::string ReplayReportJson(const mocker::ReplayReport& report, const ReplayRunInfo& info) {
  auto json = ReferenceKeys(report);
  json["understudy"] = OwnKeys(report, info);
  // Names of files and sessions need not be UTF-8: a bad byte must not lose the report.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace understudy::worker
