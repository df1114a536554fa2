// Cost of the simulated SGLang engine's core: scheduler passes, admission over the radix cache,
// eviction. Part of the engine bench.
#include "plugin/mocker/sglang/mixed_passes.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

namespace understudy::mocker {
namespace {

constexpr std::uint32_t kSequences = 256;

struct SglangCore {
  SglangCore(std::uint64_t pages, std::uint32_t page_size, bool kv_events)
      : config{.engine_type = EngineType::kSglang,
               .blocks_total = pages,
               .block_size = page_size,
               .running_max = kSequences,
               .kv_events = kv_events,
               .perf_model = &model} {}

  /// `shared` tokens that all requests have in common, then `own` ones.
  void Submit(std::size_t shared, std::size_t own, std::uint32_t outputs) {
    engine::Request request;
    request.id = RequestId{next_id};
    request.prompt.resize(shared + own);
    std::iota(request.prompt.begin(), request.prompt.end(), 0U);
    std::iota(request.prompt.begin() + static_cast<std::ptrdiff_t>(shared),
              request.prompt.end(),
              static_cast<std::uint32_t>(next_id * 4096));
    request.output_tokens_max = outputs;
    ++next_id;
    scheduler.Submit(std::move(request));
  }

  PolynomialModel model;
  SchedulerConfig config;
  MixedPasses scheduler{config, RankIndex{0}};
  std::uint64_t next_id = 1;
};

/// Steady decoding of 256 sequences; a sequence that ends is replaced. Argument: pages of the pool,
/// page size, events.
void SglangDecodePass(benchmark::State& state) {
  SglangCore core(static_cast<std::uint64_t>(state.range(0)),
                  static_cast<std::uint32_t>(state.range(1)),
                  state.range(2) != 0);
  // Seven eighths of the pool are in use, by sequences of 3,128 tokens at most.
  const auto length = static_cast<std::uint32_t>(
      std::min<std::int64_t>(state.range(0) * state.range(1) / kSequences * 7 / 8, 3128));
  const std::uint32_t prompt = std::min(length / 4, 128U);
  const std::uint32_t outputs = length - prompt;
  for (std::uint32_t i = 0; i < kSequences; ++i) {
    core.Submit(0, prompt, outputs - outputs * i / (kSequences + 1));  // ends are spread out
  }
  PassOutput output;
  std::uint64_t tokens = 0;
  for (auto _ : state) {
    core.scheduler.RunPass(output);
    tokens += output.outputs.size();
    for (const engine::Output& out : output.outputs) {
      if (out.kind != engine::OutputKind::kToken) {
        core.Submit(0, prompt, outputs);
      }
    }
  }
  state.counters["cpu/token"] = benchmark::Counter(
      static_cast<double>(tokens), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(SglangDecodePass)
    ->ArgNames({"pages", "page_size", "events"})
    ->Args({16384, 64, 0})
    ->Args({16384, 64, 1})
    ->Args({1 << 18, 16, 1})
    ->Args({1 << 18, 16, 0})
    ->Args({16384, 1, 0})
    ->Args({16384, 1, 1})
    ->Args({1 << 20, 1, 0})
    ->Args({1 << 20, 1, 1});

/// Whole requests of 1,024 cached and 64 new prompt tokens and one output, with eviction once the
/// pool is full. Argument: page size.
void SglangPrefixHits(benchmark::State& state) {
  const auto page_size = static_cast<std::uint32_t>(state.range(0));
  SglangCore core((1U << 18U) / page_size, page_size, true);
  PassOutput output;
  for (auto _ : state) {
    core.Submit(1024, 64, 1);
    core.scheduler.RunPass(output);
    benchmark::DoNotOptimize(output.admissions.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SglangPrefixHits)->Arg(1)->Arg(16)->Arg(64);

}  // namespace
}  // namespace understudy::mocker
