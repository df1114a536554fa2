#include "worker/replay/describe.h"

#include "worker/cli/version.h"
#include "worker/replay/number_text.h"
#include "worker/replay/report_table.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace understudy::worker {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

const char* NameOf(mocker::EngineType type) {
  switch (type) {
    case mocker::EngineType::kSglang:
      return "sglang";
    case mocker::EngineType::kTrtllm:
      return "trtllm";
    case mocker::EngineType::kVllm:
      break;
  }
  return "vllm";
}

std::string OnOff(bool on) {
  return on ? "on" : "off";
}

template <class T>
std::string Limit(const std::optional<T>& value) {
  return value ? Grouped(std::uint64_t{*value}) : "unlimited";
}

std::string SyntheticText(const mocker::SyntheticOptions& s) {
  std::string text = Grouped(s.request_count);
  text += s.turns_per_session > 1
              ? " sessions of " + Grouped(std::uint64_t{s.turns_per_session}) + " turns"
              : " requests";
  return text + ", " + Grouped(std::uint64_t{s.input_tokens}) + " input and " +
         Grouped(std::uint64_t{s.output_tokens}) + " output tokens";
}

std::string ArrivalText(const ReplayPlan& plan) {
  const auto& o = plan.options;
  if (o.replay_concurrency) {
    return "closed loop, " + Grouped(std::uint64_t{*o.replay_concurrency}) + " at a time";
  }
  std::string text = "as the trace says";
  if (!plan.trace) {
    text = std::string("every ") + TimeSpan(plan.synthetic.arrival_interval_ms) +
           (plan.synthetic.poisson_arrivals ? " on average, Poisson" : "");
  }
  if (o.arrival_speedup_ratio != 1.0) {
    text += ", " + Plain(o.arrival_speedup_ratio) + " x as fast";
  }
  return text;
}

void AddWorkload(const ReplayPlan& plan, Rows& rows) {
  if (plan.trace) {
    rows.emplace_back("trace", *plan.trace);
    rows.emplace_back("tokens of a hash id", Grouped(std::uint64_t{plan.trace_block_size}));
  } else {
    const auto& s = plan.synthetic;
    rows.emplace_back("load", SyntheticText(s));
    if (s.turns_per_session > 1) {
      rows.emplace_back("between turns", TimeSpan(s.inter_turn_delay_ms));
    }
    if (s.shared_prefix_ratio > 0) {
      rows.emplace_back("shared prefix",
                        Percent(s.shared_prefix_ratio) + " of a prompt, " +
                            Grouped(s.num_prefix_groups) + " groups");
    }
  }
  rows.emplace_back("arrivals", ArrivalText(plan));
}

std::string PassText(const mocker::MockerOptions& e) {
  return "at most " + Limit(e.max_num_seqs) + " requests and " + Limit(e.max_num_batched_tokens) +
         " tokens, chunked prefill " + OnOff(e.enable_chunked_prefill) + ", preemption of the " +
         (e.preemption_mode == mocker::PreemptionMode::kLifo ? "newest" : "oldest");
}

std::string TimingText(const mocker::MockerOptions& e) {
  std::string text = !e.latency_model.empty()          ? "model " + e.latency_model
                     : !e.planner_profile_data.empty() ? "profile " + e.planner_profile_data
                                                       : "the reference's polynomials";
  if (e.speedup_ratio != 1.0) {
    text += ", divided by " + Plain(e.speedup_ratio);
  }
  if (e.decode_speedup_ratio != 1.0) {
    text += ", decode by " + Plain(e.decode_speedup_ratio) + " more";
  }
  return text;
}

void AddEngine(const std::string& prefix, const mocker::MockerOptions& e, Rows& rows) {
  rows.emplace_back(prefix + "engine",
                    std::string(NameOf(e.engine_type)) +
                        (e.semantics == mocker::SemanticsRelease::k16 ? " of 1.6" : "") +
                        (e.strict_reference ? ", strictly as the reference" : ""));
  rows.emplace_back(prefix + "KV cache",
                    Grouped(e.num_gpu_blocks) + " blocks of " +
                        Grouped(std::uint64_t{e.block_size}) + " tokens, prefix caching " +
                        OnOff(e.enable_prefix_caching));
  rows.emplace_back(prefix + "pass", PassText(e));
  rows.emplace_back(prefix + "timing", TimingText(e));
  if (e.speculative) {
    std::string rates;
    for (const double rate : e.speculative->accept_rates) {
      rates += (rates.empty() ? "" : ", ") + Plain(rate);
    }
    rows.emplace_back(prefix + "speculative decoding", "accept rates " + rates);
  }
  if (e.kv_transfer_bandwidth && e.kv_bytes_per_token) {
    rows.emplace_back(prefix + "KV transfer",
                      Grouped(*e.kv_bytes_per_token) + " bytes a token at " +
                          Plain(*e.kv_transfer_bandwidth) + " GB/s");
  }
}

std::string RouterText(const mocker::ReplayOptions& o) {
  if (o.router_mode == mocker::ReplayRouterMode::kRoundRobin) {
    return "round robin";
  }
  return "KV aware, overlap credit " + Plain(o.router.overlap_score_credit) + ", temperature " +
         Plain(o.router.router_temperature) + ", queue threshold " +
         (o.router.router_queue_threshold ? Plain(*o.router.router_queue_threshold) : "none");
}

void AddWorkers(const mocker::ReplayOptions& o, Rows& rows) {
  const auto count = [](std::uint32_t workers, std::uint32_t gpus) {
    return Grouped(std::uint64_t{workers}) + " of " + Grouped(std::uint64_t{gpus}) + " GPU";
  };
  if (o.engine) {
    rows.emplace_back("workers", count(o.num_workers, o.gpus_per_worker));
  } else {
    rows.emplace_back("prefill workers", count(o.num_prefill_workers, o.gpus_per_prefill_worker));
    rows.emplace_back("decode workers", count(o.num_decode_workers, o.gpus_per_worker));
  }
  rows.emplace_back("router", RouterText(o));
}

std::string TitleOf(const ReplayPlan& plan) {
  return plan.trace ? "Offline replay of " + std::filesystem::path(*plan.trace).filename().string()
                    : "Offline replay of " + SyntheticText(plan.synthetic);
}

}  // namespace

std::string ShellWords(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
  std::string text;
  for (const auto& word : words) {
    text += text.empty() ? "" : " ";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) {
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    text += '\'';
  }
  return text;
}

ReplayRunInfo DescribeReplay(const ReplayPlan& plan, const std::vector<std::string>& arguments) {
  const auto& o = plan.options;
  ReplayRunInfo info;
  info.title = TitleOf(plan);
  info.version = kVersion;
  info.seed = o.seed;
  std::vector<std::string> words{"understudy", "replay"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  info.command_line = ShellWords(words);
  auto& rows = info.configuration;
  AddWorkload(plan, rows);
  AddWorkers(o, rows);
  if (o.engine) {
    AddEngine("", *o.engine, rows);
  } else {
    AddEngine("prefill ", *o.prefill_engine, rows);
    AddEngine("decode ", *o.decode_engine, rows);
  }
  if (o.sla.is_set()) {
    rows.emplace_back("service level", SlaText(o.sla));
  }
  if (o.max_sim_time_ms) {
    rows.emplace_back("simulated time at most", TimeSpan(*o.max_sim_time_ms));
  }
  return info;
}

}  // namespace understudy::worker
