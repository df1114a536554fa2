// A report with every part filled, for tests of what is made of it.
#pragma once

#include "understudy/mocker/replay.h"
#include "worker/replay/run_info.h"

namespace understudy::worker {

inline mocker::Distribution SampleDistribution(double mean) {
  mocker::Distribution values;
  values.count = 1000;
  values.mean = mean;
  values.min = mean / 2;
  values.max = mean * 10;
  values.median = mean * 0.9;
  values.p75 = mean * 1.5;
  values.p90 = mean * 2;
  values.p95 = mean * 3;
  values.p99 = mean * 5;
  values.std = mean / 4;
  return values;
}

inline mocker::ReplayReport SampleReport() {
  mocker::ReplayReport report;
  report.num_requests = 12'345;
  report.completed_requests = 12'300;
  report.rejected_requests = 45;
  report.total_input_tokens = 6'000'000;
  report.total_output_tokens = 480'000;
  report.duration_ms = 3'345'208.0;
  report.wall_time_ms = 500.0;
  report.request_throughput_rps = 29.5;
  report.input_throughput_tok_s = 17'017.25;
  report.output_throughput_tok_s = 1'194.5;
  report.total_throughput_tok_s = 18'211.75;
  report.decode_worker_seconds = 3'345.208;
  report.decode_gpus_per_worker = 1;
  report.gpu_hours = 0.92922;
  report.processed_tokens = 6'480'000;
  report.prefix_cache_reused_ratio = 0.42873;
  report.first_admission_prefix_cache_reused_ratio = 0.42;
  report.ttft = SampleDistribution(42.0);
  report.ttst = SampleDistribution(12.0);
  report.tpot = SampleDistribution(13.0);
  report.itl = SampleDistribution(14.0);
  report.e2e_latency = SampleDistribution(560.0);
  report.output_token_throughput_per_user = SampleDistribution(110.0);
  report.preemptions = 7;
  report.passes = 250'123;
  report.series.bucket_ms = 4096.0;
  mocker::ReplayBucket bucket;
  bucket.ttft_p50_ms = 40.0;
  bucket.ttft_p99_ms = 80.0;
  bucket.cache_hit_ratio = 0.5;
  bucket.running_mean = 3.5;
  bucket.waiting_max = 9;
  report.series.buckets.push_back(bucket);
  bucket = {};
  bucket.start_ms = 4096.0;
  report.series.buckets.push_back(bucket);
  return report;
}

inline ReplayRunInfo SampleInfo() {
  ReplayRunInfo info;
  info.title = "Offline replay of trace.jsonl";
  info.command_line = "understudy replay trace.jsonl";
  info.version = "1.2.3";
  info.seed = 42;
  info.configuration = {{"workload", "trace.jsonl"}, {"workers", "8"}};
  return info;
}

}  // namespace understudy::worker
