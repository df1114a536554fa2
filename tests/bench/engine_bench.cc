// Cost of the simulated engine's core: scheduler passes, admission with prefix lookup, eviction,
// block hashing.
#include "plugin/mocker/kv_cache/block_hash.h"
#include "plugin/mocker/policy/vllm_policy.h"
#include "plugin/mocker/scheduler/scheduler.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

namespace understudy::mocker {
namespace {

constexpr std::uint32_t kSequences = 256;

struct Core {
  Core(std::uint64_t blocks, std::uint32_t block_size, bool kv_events)
      : config{.blocks_total = blocks,
               .block_size = block_size,
               .kv_events = kv_events,
               .policy = &policy,
               .perf_model = &model} {}

  /// A request nobody else shares a prefix with.
  void Submit(std::size_t prompt, std::uint32_t outputs) {
    engine::Request request;
    request.id = RequestId{next_id};
    request.prompt.resize(prompt);
    std::iota(
        request.prompt.begin(), request.prompt.end(), static_cast<std::uint32_t>(next_id * 4096));
    request.output_tokens_max = outputs;
    ++next_id;
    scheduler.Submit(std::move(request));
  }

  VllmPolicy policy;
  PolynomialModel model;
  SchedulerConfig config;
  Scheduler scheduler{config, RankIndex{0}};
  std::uint64_t next_id = 1;
};

/// Steady decoding of 256 sequences; a sequence that ends is replaced. Argument: blocks of the
/// pool, block size, events.
void DecodePass(benchmark::State& state) {
  Core core(static_cast<std::uint64_t>(state.range(0)),
            static_cast<std::uint32_t>(state.range(1)),
            state.range(2) != 0);
  constexpr std::uint32_t kOutputs = 3000;
  for (std::uint32_t i = 0; i < kSequences; ++i) {
    core.Submit(128, kOutputs - 10 * i);  // ends are spread out
  }
  PassOutput output;
  std::uint64_t tokens = 0;
  for (auto _ : state) {
    core.scheduler.RunPass(output);
    tokens += output.outputs.size();
    for (const engine::Output& out : output.outputs) {
      if (out.kind != engine::OutputKind::kToken) {
        core.Submit(128, kOutputs);
      }
    }
  }
  state.counters["cpu/token"] = benchmark::Counter(
      static_cast<double>(tokens), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(DecodePass)
    ->ArgNames({"blocks", "block_size", "events"})
    ->Args({16384, 64, 0})
    ->Args({16384, 64, 1})
    ->Args({1 << 20, 64, 0})
    ->Args({1 << 20, 64, 1})
    ->Args({1 << 20, 4, 1});

/// Whole short requests: submit, admit, 64 tokens, end, with eviction once the pool is full.
/// Argument: blocks of the pool.
void ShortRequests(benchmark::State& state) {
  Core core(static_cast<std::uint64_t>(state.range(0)), 64, true);
  PassOutput output;
  std::uint64_t requests = 0;
  for (auto _ : state) {
    while (core.scheduler.load().requests_running + core.scheduler.load().requests_waiting <
           kSequences) {
      core.Submit(128, 64);
      ++requests;
    }
    core.scheduler.RunPass(output);
  }
  state.counters["cpu/request"] = benchmark::Counter(
      static_cast<double>(requests), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(ShortRequests)->Arg(16384)->Arg(1 << 20);

/// Storing and evicting prompts of 256 blocks that nobody shares. Items are blocks.
void EvictingPrompts(benchmark::State& state) {
  Core core(16384, 4, true);
  PassOutput output;
  for (auto _ : state) {
    core.Submit(1024, 1);
    core.scheduler.RunPass(output);
  }
  state.SetItemsProcessed(state.iterations() * 256);
}
BENCHMARK(EvictingPrompts);

void HashBlock(benchmark::State& state) {
  const std::vector<std::uint32_t> tokens(static_cast<std::size_t>(state.range(0)), 7);
  BlockHash parent{1};
  for (auto _ : state) {
    parent = ChainHash(&parent, HashTokens(tokens));
    benchmark::DoNotOptimize(parent);
  }
}
BENCHMARK(HashBlock)->Arg(4)->Arg(16)->Arg(64);

}  // namespace
}  // namespace understudy::mocker

BENCHMARK_MAIN();
