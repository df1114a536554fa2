#include "plugin/mocker/replay/collector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace understudy::mocker {

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kMsPerS = 1e3;
constexpr double kSecondsMin = 1e-9;
constexpr double kSecondsPerHour = 3600.0;
/// How often the observer is asked when no request ends.
constexpr std::uint64_t kPassesPerQuestion = 4096;

std::uint32_t IndexOf(RequestId id) {
  return static_cast<std::uint32_t>(Value(id));
}

std::uint64_t Nanoseconds(double ms) {
  return ms <= 0.0 ? 0 : static_cast<std::uint64_t>(std::llround(ms * kNsPerMs));
}

std::uint64_t Mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

/// A version 4 UUID for request `number` of a run.
std::string MakeUuid(std::uint64_t seed, std::uint64_t number) {
  const std::uint64_t high = Mix(seed * 0x9E3779B97F4A7C15ULL + number + 1);
  const std::uint64_t low = Mix(high + number);
  std::array<char, 37> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08x-%04x-4%03x-%04x-%012llx",
                static_cast<unsigned>(high >> 32U),
                static_cast<unsigned>((high >> 16U) & 0xFFFFU),
                static_cast<unsigned>(high & 0xFFFU),
                static_cast<unsigned>(0x8000U | ((low >> 48U) & 0x3FFFU)),
                static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFULL));
  return text.data();
}

std::optional<double> Happened(double at_ms) {
  return at_ms == Collector::kNever ? std::nullopt : std::optional(at_ms);
}

std::optional<std::uint32_t> There(std::uint32_t value) {
  return value == Collector::kNobody ? std::nullopt : std::optional(value);
}

std::uint32_t Most(std::uint32_t known, std::uint32_t value) {
  return known == Collector::kNobody ? value : std::max(known, value);
}

}  // namespace

RequestId Collector::Arrive(ReplayRow& row, double arrival_ms) {
  std::uint32_t index = static_cast<std::uint32_t>(requests_.size());
  if (unused_.empty()) {
    requests_.emplace_back();
    times_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Request& request = requests_[index];
  request = Request{};
  times_[index] = {};
  request.uuid.swap(row.request_id);
  request.session_id.swap(row.session_id);
  request.place = {row.ordinal, row.turn, row.next, row.next_delay_ms};
  request.number = sums_.num_requests++;
  request.arrival_ms = arrival_ms;
  request.input_length = row.input_length;
  request.output_length = row.output_length;
  request.used = true;
  if (release_ == SemanticsRelease::k16 && observer_.on_record) {
    request.history = std::make_unique<ReplayHistory>();
    request.history->requested_output_length = row.output_length;
  }
  ++in_flight_;
  series_.AddArrival(arrival_ms);
  return RequestId{index};
}

void Collector::Queue(RequestId id, ReplayStage stage, double at_ms) {
  if (ReplayHistory* history = requests_[Value(id)].history.get()) {
    history->routings.push_back({.stage = stage, .queued_ms = at_ms});
  }
}

void Collector::Route(RequestId id, const ReplayRouting& routing) {
  ReplayHistory* history = requests_[Value(id)].history.get();
  if (history == nullptr) {
    return;
  }
  auto& routings = history->routings;
  const bool waited = !routings.empty() && routings.back().stage == routing.stage;
  ReplayRouting& target = waited ? routings.back() : routings.emplace_back();
  // Out of the queue in the moment in which it came: it did not wait.
  const std::optional<double> queued =
      waited && target.queued_ms != routing.routed_ms ? target.queued_ms : std::nullopt;
  target = routing;
  target.queued_ms = queued;
}

void Collector::Admit(const PassOutput& pass, ReplayStage stage, double at_ms) {
  for (const engine::Admission& admission : pass.admissions) {
    Admit(admission.id, {stage, at_ms, admission.cached_tokens, admission.host_tokens});
  }
}

void Collector::Admit(RequestId id, const ReplayAdmission& admission) {
  Request& request = requests_[Value(id)];
  const double at_ms = admission.at_ms;
  const std::uint32_t reused = admission.reused_tokens;
  if (request.history) {
    request.history->admissions.push_back(admission);
  }
  if (request.first_admit_ms == kNever) {
    request.first_admit_ms = at_ms;
    request.first_reused = reused;
    series_.AddAdmission(at_ms, request.input_length, reused);
  }
  request.reused = std::max(request.reused, reused);
  Handoff& handoff = request.handoff;
  if (admission.stage == ReplayStage::kPrefill) {
    handoff.prefill_admit_ms = std::min(handoff.prefill_admit_ms, at_ms);
    handoff.prefill_reused = Most(handoff.prefill_reused, reused);
  } else if (admission.stage == ReplayStage::kDecode) {
    handoff.decode_admit_ms = std::min(handoff.decode_admit_ms, at_ms);
    handoff.decode_reused = Most(handoff.decode_reused, reused);
  }
}

void Collector::AddFirstToken(RequestId id, double at_ms) {
  const std::uint64_t ttft = Nanoseconds(at_ms - requests_[Value(id)].arrival_ms);
  ttft_.Add(ttft);
  series_.AddFirstToken(at_ms, ttft);
}

void Collector::AddGap(std::uint64_t nanoseconds, std::uint64_t count, double at_ms) {
  if (count > 0) {
    itl_.Add(nanoseconds, count);
    series_.AddGaps(at_ms, nanoseconds, count);
  }
}

void Collector::AddTokens(const std::vector<engine::Output>& outputs, double at_ms) {
  // Most requests of a pass got their previous token at the same time: one gap for all of them.
  double last_ms = kNever;
  std::uint64_t gap_ns = 0;
  std::uint64_t gaps = 0;
  std::uint64_t tokens = 0;
  for (const engine::Output& output : outputs) {
    if (output.kind != engine::OutputKind::kToken &&
        output.kind != engine::OutputKind::kLastToken) {
      continue;
    }
    TokenTimes& times = times_[Value(output.id)];
    if (times.tokens == 0) {
      times.first_ms = at_ms;
      AddFirstToken(output.id, at_ms);
    } else {
      if (times.last_ms != last_ms) {
        AddGap(gap_ns, gaps, at_ms);
        last_ms = times.last_ms;
        gap_ns = Nanoseconds(at_ms - last_ms);
        gaps = 0;
      }
      ++gaps;
      if (times.tokens == 1) {
        requests_[Value(output.id)].ttst_ms = std::max(at_ms - times.first_ms, 0.0);
        ttst_.Add(gap_ns);
      }
    }
    times.last_ms = at_ms;
    ++times.tokens;
    ++tokens;
  }
  AddGap(gap_ns, gaps, at_ms);
  if (tokens > 0) {
    series_.AddTokens(at_ms, tokens);
  }
}

bool Collector::IsGood(double ttft_ms, double e2e_ms, std::uint32_t output_length) const {
  if (e2e_ms > sla_.e2e_ms.value_or(kNever) || ttft_ms > sla_.ttft_ms.value_or(kNever)) {
    return false;
  }
  return output_length <= 1 ||
         (e2e_ms - ttft_ms) / (output_length - 1.0) <= sla_.itl_ms.value_or(kNever);
}

std::uint32_t Collector::OutputLength(std::uint32_t index) const {
  return release_ == SemanticsRelease::k13 ? requests_[index].output_length : times_[index].tokens;
}

void Collector::Fold(std::uint32_t index) {
  const Request& request = requests_[index];
  const std::uint32_t output_length = OutputLength(index);
  const TokenTimes& times = times_[index];
  if (times.tokens == 0) {
    return;
  }
  ++sums_.completed_requests;
  sums_.total_input_tokens += request.input_length;
  sums_.total_output_tokens += output_length;
  sums_.duration_ms = std::max(sums_.duration_ms, times.last_ms);
  reused_ += request.reused;
  first_reused_ += request.first_reused;
  const double ttft = std::max(times.first_ms - request.arrival_ms, 0.0);
  const double e2e = std::max(times.last_ms - request.arrival_ms, 0.0);
  e2e_.Add(Nanoseconds(e2e));
  if (times.tokens > 1) {
    tpot_.Add(Nanoseconds((times.last_ms - times.first_ms) / (times.tokens - 1.0)));
  }
  if (sla_.is_set() && IsGood(ttft, e2e, output_length)) {
    ++good_.completed_requests;
    good_tokens_ += output_length;
  }
}

void Collector::Finish(RequestId id, ReplayStatus status, double at_ms) {
  Request& request = requests_[Value(id)];
  if (!request.over) {
    request.over = true;
    request.status = status;
    if (request.history) {
      request.history->terminal_time_ms = at_ms;
    }
    sums_.rejected_requests += status == ReplayStatus::kRejected ? 1U : 0U;
    sums_.failed_requests += status == ReplayStatus::kFailed ? 1U : 0U;
    if (status == ReplayStatus::kCompleted) {
      series_.AddCompleted(at_ms);
    }
    Fold(IndexOf(id));
    ++rows_done_;
  }
}

void Collector::Release(RequestId id) {
  if (observer_.on_record) {
    observer_.on_record(RecordOf(IndexOf(id)));
  }
  requests_[Value(id)].used = false;
  unused_.push_back(IndexOf(id));
  --in_flight_;
}

ReplayRecord Collector::RecordOf(std::uint32_t index) const {
  const Request& request = requests_[index];
  const TokenTimes& times = times_[index];
  const Handoff& handoff = request.handoff;
  ReplayRecord record;
  record.session_id = request.session_id;
  if (!request.session_id.empty()) {
    record.turn = request.place.turn;
  }
  record.uuid = request.uuid.empty() ? MakeUuid(seed_, request.number) : request.uuid;
  record.arrival_time_ms = request.arrival_ms;
  record.first_admit_ms = Happened(request.first_admit_ms);
  record.ttst_ms = Happened(request.ttst_ms);
  if (times.tokens > 0) {
    record.first_token_ms = times.first_ms;
    record.last_token_ms = times.last_ms;
    record.ttft_ms = std::max(times.first_ms - request.arrival_ms, 0.0);
    record.e2e_latency_ms = std::max(times.last_ms - request.arrival_ms, 0.0);
  }
  if (times.tokens > 1) {
    record.itl_ms = std::max(times.last_ms - times.first_ms, 0.0) / (times.tokens - 1.0);
  }
  record.input_length = request.input_length;
  record.output_length = OutputLength(index);
  record.reused_input_tokens = There(handoff.prefill_reused).value_or(request.reused);
  record.prefill_worker_idx = There(request.prefill_worker);
  record.decode_worker_idx = There(request.decode_worker);
  record.prefill_admit_ms = Happened(handoff.prefill_admit_ms);
  record.source_held_ms = Happened(handoff.source_held_ms);
  record.destination_reserved_ms = Happened(handoff.destination_reserved_ms);
  record.destination_activated_ms = Happened(handoff.destination_activated_ms);
  record.decode_admit_ms = Happened(handoff.decode_admit_ms);
  record.source_released_ms = Happened(handoff.source_released_ms);
  record.decode_reused_input_tokens = There(handoff.decode_reused);
  record.prefill_route_overlap_tokens = There(handoff.prefill_overlap);
  record.decode_route_overlap_tokens = There(handoff.decode_overlap);
  record.status = request.status;
  if (request.history) {
    record.history = *request.history;
  }
  return record;
}

bool Collector::Progress(double now_ms) {
  ++passes_;
  if (!observer_.on_progress) {
    return true;
  }
  const bool due = rows_done_ >= told_rows_ + std::max<std::uint64_t>(observer_.progress_rows, 1);
  if (!due && passes_ % kPassesPerQuestion != 0) {
    return true;
  }
  told_rows_ = rows_done_;
  return observer_.on_progress({rows_done_, rows_total_, now_ms});
}

void Collector::FillThroughput(ReplayReport& report, const Totals& totals) const {
  const double seconds = std::max(report.duration_ms / kMsPerS, kSecondsMin);
  const auto input = static_cast<double>(report.total_input_tokens);
  const auto output = static_cast<double>(report.total_output_tokens);
  report.request_throughput_rps = static_cast<double>(report.completed_requests) / seconds;
  report.input_throughput_tok_s = input / seconds;
  report.output_throughput_tok_s = output / seconds;
  report.total_throughput_tok_s = (input + output) / seconds;
  const double provided = totals.static_workers ? seconds : totals.end_ms / kMsPerS;
  report.prefill_worker_seconds = totals.prefill_workers * provided;
  report.decode_worker_seconds = totals.decode_workers * provided;
  report.prefill_gpus_per_worker = totals.prefill_gpus;
  report.decode_gpus_per_worker = totals.decode_gpus;
  report.gpu_hours = (report.prefill_worker_seconds * totals.prefill_gpus +
                      report.decode_worker_seconds * totals.decode_gpus) /
                     kSecondsPerHour;
  report.processed_tokens = report.total_input_tokens + report.total_output_tokens;
  if (totals.wall_time_ms > 0.0) {
    report.processed_tokens_per_s = (input + output) / totals.wall_time_ms * kMsPerS;
    report.processed_output_tokens_per_s = output / totals.wall_time_ms * kMsPerS;
  }
  if (report.total_input_tokens > 0) {
    report.prefix_cache_reused_ratio = static_cast<double>(reused_) / input;
    report.first_admission_prefix_cache_reused_ratio = static_cast<double>(first_reused_) / input;
  }
  if (sla_.is_set()) {
    report.goodput = good_;
    report.goodput->request_throughput_rps =
        static_cast<double>(good_.completed_requests) / seconds;
    report.goodput->output_throughput_tok_s = static_cast<double>(good_tokens_) / seconds;
  }
}

ReplayReport Collector::Report(const Totals& totals) {
  for (std::uint32_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].used && !requests_[i].over) {
      Fold(i);
    }
  }
  ReplayReport report = sums_;
  report.release = release_;
  report.wall_time_ms = totals.wall_time_ms;
  FillThroughput(report, totals);
  report.ttft = ttft_.Milliseconds();
  report.ttst = ttst_.Milliseconds();
  report.tpot = tpot_.Milliseconds();
  report.itl = itl_.Milliseconds();
  report.e2e_latency = e2e_.Milliseconds();
  report.output_token_throughput_per_user = itl_.PerSecond();
  report.preemptions = totals.preemptions;
  report.passes = passes_;
  report.end = totals.end;
  report.series = series_.Build(totals.end_ms);
  return report;
}

}  // namespace understudy::mocker
