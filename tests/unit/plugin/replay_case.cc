#include "tests/unit/plugin/replay_case.h"

#include "tests/unit/plugin/golden16.h"
#include "tests/unit/plugin/golden_case.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <unistd.h>

namespace understudy::mocker {

namespace {

using Json = nlohmann::json;

template <class T>
std::optional<T> Optional(const Json& call, const char* name) {
  return call.contains(name) && !call[name].is_null() ? std::optional<T>(call[name].get<T>())
                                                      : std::nullopt;
}

void AddDistribution(std::map<std::string, double>& out,
                     const std::string& name,
                     const Distribution& d) {
  out["mean_" + name] = d.mean;
  out["min_" + name] = d.min;
  out["max_" + name] = d.max;
  out["median_" + name] = d.median;
  out["p75_" + name] = d.p75;
  out["p90_" + name] = d.p90;
  out["p95_" + name] = d.p95;
  out["p99_" + name] = d.p99;
  out["std_" + name] = d.std;
}

MockerOptions EngineOf(const Json& args, SemanticsRelease release) {
  // speedup_ratio 0 means "undivided" in the originals; ours is free-running.
  return release == SemanticsRelease::k16 ? Golden16Options(args, true) : GoldenOptions(args, true);
}

template <class T>
Json Nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

TraceFile::TraceFile(const std::vector<std::string>& lines) {
  Write(lines);
}

TraceFile::TraceFile(const Json& rows) {
  std::vector<std::string> lines;
  for (const Json& row : rows) {
    lines.push_back(row.dump());
  }
  Write(lines);
}

TraceFile::~TraceFile() {
  std::remove(path_.c_str());
}

void TraceFile::Write(const std::vector<std::string>& lines) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder == nullptr ? "/tmp" : folder) + "/understudy_trace_XXXXXX";
  const int fd = ::mkstemp(path_.data());
  if (fd < 0) {
    std::cerr << "no temporary file " << path_ << "\n";
    std::abort();
  }
  ::close(fd);
  std::ofstream file(path_);
  for (const std::string& line : lines) {
    file << line << "\n";
  }
}

GoldenSource::GoldenSource(const Json& golden, SemanticsRelease release) {
  const Json& call = golden["call"];
  if (golden.contains("trace_rows")) {
    file_ = std::make_unique<TraceFile>(golden["trace_rows"]);
    source_ =
        NewMooncakeReader(file_->path(), call.value("trace_block_size", kTraceBlockSizeDefault));
    return;
  }
  const Json& args =
      golden["engine_args"].is_null() ? golden["prefill_engine_args"] : golden["engine_args"];
  SyntheticOptions options;
  options.request_count = call["request_count"];
  options.input_tokens = call["input_tokens"];
  options.output_tokens = call["output_tokens"];
  options.arrival_interval_ms = call.value("arrival_interval_ms", 1.0);
  if (call.contains("request_rate")) {
    options.arrival_interval_ms = 1000.0 / call["request_rate"].get<double>();
    options.poisson_arrivals = true;
  }
  options.turns_per_session = call.value("turns_per_session", 1U);
  options.inter_turn_delay_ms = call.value("inter_turn_delay_ms", 0.0);
  options.shared_prefix_ratio = call.value("shared_prefix_ratio", 0.0);
  options.num_prefix_groups = call.value("num_prefix_groups", std::uint64_t{0});
  options.names_sessions = release == SemanticsRelease::k16 &&
                           (options.num_prefix_groups > 0 || options.shared_prefix_ratio > 0);
  options.merge_prefix_groups = true;
  options.block_size = EngineOf(args, release).block_size;
  source_ = NewSyntheticSource(options);
}

ReplayOptions GoldenReplayOptions(const Json& golden, SemanticsRelease release) {
  const Json& call = golden["call"];
  const auto engine = [&](const char* name) {
    return golden[name].is_null() ? std::nullopt : std::optional(EngineOf(golden[name], release));
  };
  ReplayOptions options;
  options.engine = engine("engine_args");
  options.prefill_engine = engine("prefill_engine_args");
  options.decode_engine = engine("decode_engine_args");
  // One GPU a rank.
  const auto ranks = [](const std::optional<MockerOptions>& e) { return e ? e->rank_count : 1; };
  options.gpus_per_worker = std::max(ranks(options.engine), ranks(options.decode_engine));
  options.gpus_per_prefill_worker = ranks(options.prefill_engine);
  options.num_workers = call.value("num_workers", 1U);
  options.num_prefill_workers = call.value("num_prefill_workers", 1U);
  options.num_decode_workers = call.value("num_decode_workers", 1U);
  options.router_mode = call.value("router_mode", "round_robin") == "kv_router"
                            ? ReplayRouterMode::kKv
                            : ReplayRouterMode::kRoundRobin;
  if (call.contains("router_config")) {
    const Json& router = call["router_config"];
    KvRouterOptions& out = options.router;
    out.overlap_score_credit = router.value("overlap_score_credit", 1.0);
    out.overlap_score_credit_decay = router.value("overlap_score_credit_decay", 0.0);
    out.prefill_load_scale = router.value("prefill_load_scale", 1.0);
    out.router_track_active_blocks = router.value("router_track_active_blocks", true);
    out.router_assume_kv_reuse = router.value("router_assume_kv_reuse", true);
    out.router_track_prefill_tokens = router.value("router_track_prefill_tokens", true);
    out.router_queue_threshold = router.value("router_queue_threshold", 16.0);
    const std::string policy = router.value("router_queue_policy", "fcfs");
    out.router_queue_policy = policy == "wspt"   ? RouterQueuePolicy::kWspt
                              : policy == "lcfs" ? RouterQueuePolicy::kLcfs
                                                 : RouterQueuePolicy::kFcfs;
  }
  options.replay_concurrency = Optional<std::uint32_t>(call, "replay_concurrency");
  options.arrival_speedup_ratio = call.value("arrival_speedup_ratio", 1.0);
  options.max_sim_time_ms = Optional<double>(call, "max_sim_time_ms");
  options.sla = {Optional<double>(call, "sla_ttft_ms"),
                 Optional<double>(call, "sla_itl_ms"),
                 Optional<double>(call, "sla_e2e_ms")};
  return options;
}

std::map<std::string, double> ReportNumbers(const ReplayReport& report) {
  std::map<std::string, double> out;
  const auto count = [&out](const char* name, std::uint64_t value) {
    out[name] = static_cast<double>(value);
  };
  count("num_requests", report.num_requests);
  count("completed_requests", report.completed_requests);
  count("total_input_tokens", report.total_input_tokens);
  count("total_output_tokens", report.total_output_tokens);
  count("processed_tokens", report.processed_tokens);
  count("prefill_gpus_per_worker", report.prefill_gpus_per_worker);
  count("decode_gpus_per_worker", report.decode_gpus_per_worker);
  out["duration_ms"] = report.duration_ms;
  out["request_throughput_rps"] = report.request_throughput_rps;
  out["input_throughput_tok_s"] = report.input_throughput_tok_s;
  out["output_throughput_tok_s"] = report.output_throughput_tok_s;
  out["total_throughput_tok_s"] = report.total_throughput_tok_s;
  out["prefill_worker_seconds"] = report.prefill_worker_seconds;
  out["decode_worker_seconds"] = report.decode_worker_seconds;
  out["gpu_hours"] = report.gpu_hours;
  out["prefix_cache_reused_ratio"] = report.prefix_cache_reused_ratio;
  out["first_admission_prefix_cache_reused_ratio"] =
      report.first_admission_prefix_cache_reused_ratio;
  if (report.goodput) {
    count("goodput_completed_requests", report.goodput->completed_requests);
    out["goodput_request_throughput_rps"] = report.goodput->request_throughput_rps;
    out["goodput_output_throughput_tok_s"] = report.goodput->output_throughput_tok_s;
  }
  AddDistribution(out, "ttft_ms", report.ttft);
  AddDistribution(out, "ttst_ms", report.ttst);
  AddDistribution(out, "tpot_ms", report.tpot);
  AddDistribution(out, "itl_ms", report.itl);
  AddDistribution(out, "e2e_latency_ms", report.e2e_latency);
  AddDistribution(out, "output_token_throughput_per_user", report.output_token_throughput_per_user);
  if (report.release == SemanticsRelease::k16) {
    count("committed_prefill_tokens", report.committed_prefill_tokens);
    count("num_ttft_samples", report.ttft.count);
    count("num_tpot_samples", report.tpot.count);
    count("num_e2e_latency_samples", report.e2e_latency.count);
  }
  return out;
}

const char* PoolName(ReplayStage stage) {
  static const char* const kNames[] = {"agg", "prefill", "decode"};
  return kNames[static_cast<std::size_t>(stage)];
}

/// Only what is not about a router that looks at caches.
Json RoutingJson(const ReplayRouting& routing) {
  return {{"pool", PoolName(routing.stage)},
          {"outcome", routing.queued_ms ? "queued" : "immediate"},
          {"logical_worker_id", routing.worker},
          {"scheduler_id", routing.scheduler},
          {"dp_rank", routing.rank},
          {"reported_overlap_tokens", routing.overlap_tokens}};
}

Json HistoryJson(const ReplayHistory& history) {
  Json admissions = Json::array();
  for (const ReplayAdmission& admission : history.admissions) {
    Json& json = admissions.emplace_back(Json{{"pool", PoolName(admission.stage)},
                                              {"at_ms", admission.at_ms},
                                              {"reused_input_tokens", admission.reused_tokens}});
    if (admission.host_tokens) {
      json["g1_reused_input_tokens"] = admission.reused_tokens - *admission.host_tokens;
      json["host_reused_input_tokens"] = *admission.host_tokens;
    }
  }
  Json routings = Json::array();
  for (const ReplayRouting& routing : history.routings) {
    routings.push_back(RoutingJson(routing));
  }
  return {{"requested_output_length", history.requested_output_length},
          {"terminal_time_ms", Nullable(history.terminal_time_ms)},
          {"routing_history", routings},
          {"admission_history", admissions}};
}

Json RecordJson(const ReplayRecord& record) {
  static const char* const kNames[] = {"completed", "rejected", "canceled", "failed"};
  Json json = {
      {"session_id", record.session_id.empty() ? Json(nullptr) : Json(record.session_id)},
      {"turn_index", Nullable(record.turn)},
      {"arrival_time_ms", record.arrival_time_ms},
      {"first_admit_ms", Nullable(record.first_admit_ms)},
      {"first_token_ms", Nullable(record.first_token_ms)},
      {"last_token_ms", Nullable(record.last_token_ms)},
      {"ttft_ms", Nullable(record.ttft_ms)},
      {"ttst_ms", Nullable(record.ttst_ms)},
      {"e2e_latency_ms", Nullable(record.e2e_latency_ms)},
      {"itl_ms", Nullable(record.itl_ms)},
      {"input_length", record.input_length},
      {"output_length", record.output_length},
      {"reused_input_tokens", record.reused_input_tokens},
      {"prefill_worker_idx", Nullable(record.prefill_worker_idx)},
      {"decode_worker_idx", Nullable(record.decode_worker_idx)},
      {"prefill_admit_ms", Nullable(record.prefill_admit_ms)},
      {"source_held_ms", Nullable(record.source_held_ms)},
      {"destination_reserved_ms", Nullable(record.destination_reserved_ms)},
      {"destination_activated_ms", Nullable(record.destination_activated_ms)},
      {"decode_admit_ms", Nullable(record.decode_admit_ms)},
      {"source_released_ms", Nullable(record.source_released_ms)},
      {"decode_reused_input_tokens", Nullable(record.decode_reused_input_tokens)},
      {"prefill_route_overlap_tokens", Nullable(record.prefill_route_overlap_tokens)},
      {"decode_route_overlap_tokens", Nullable(record.decode_route_overlap_tokens)},
      {"terminal_status", kNames[static_cast<std::size_t>(record.status)]},
  };
  if (record.history) {
    json.update(HistoryJson(*record.history));
  }
  return json;
}

}  // namespace understudy::mocker
