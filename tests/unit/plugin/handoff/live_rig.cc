#include "tests/unit/plugin/handoff/live_rig.h"

#include "understudy/base/assert.h"

#include <numeric>

namespace understudy::mocker {

MockerOptions RigOptions(WorkerType type, double speedup) {
  MockerOptions options;
  options.block_size = 16;
  options.num_gpu_blocks = 256;
  options.worker_type = type;
  options.speedup_ratio = speedup;
  options.rank_count = 2;
  options.thread_count = 2;
  options.kv_bytes_per_token = 45056;
  options.kv_transfer_bandwidth = 64.0;
  return options;
}

LiveRig::LiveRig(const MockerOptions& options) {
  auto made = NewMockerEngine(options, clock);
  UNDERSTUDY_ASSERT(made);
  engine = std::move(*made);
  thread.Do([this] {
    handoffs = engine->OpenHandoffs([this](Task task) { thread.loop().Post(std::move(task)); });
  });
  UNDERSTUDY_ASSERT(engine->Start(*this));
}

LiveRig::~LiveRig() {
  engine->Stop();
  thread.Do([this] { engine.reset(); });
}

void LiveRig::OnKvEvents(std::vector<engine::KvEvent> events) {
  thread.loop().Post([this, events = std::move(events)] {
    for (const engine::KvEvent& event : events) {
      stored_events += event.kind == engine::KvEvent::Kind::kStored ? 1U : 0U;
    }
  });
}

void LiveRig::OnPassBatch(engine::PassBatch batch) {
  thread.loop().Post([this, taken = std::move(batch)]() mutable {
    if (!engine) {
      return;
    }
    std::size_t next = 0;
    const auto outputs_to = [&](std::size_t end) {
      for (; next < end; ++next) {
        const engine::Output& output = taken.outputs[next];
        ++tokens[output.id];
        if (output.kind != engine::OutputKind::kToken) {
          done.insert(output.id);
          if (const auto waiter = when_done.extract(output.id); !waiter.empty()) {
            waiter.mapped()();
          }
        }
      }
    };
    for (engine::HandoffSignal& signal : taken.handoffs) {
      outputs_to(signal.outputs_before);
      handoffs->OnSignal(std::move(signal));
    }
    outputs_to(taken.outputs.size());
    for (const engine::Load& one : taken.loads) {
      load = one;
    }
  });
}

void LiveRig::WhenDone(RequestId id, std::function<void()> then) {
  if (done.contains(id)) {
    then();
  } else {
    when_done[id] = std::move(then);
  }
}

engine::Request LiveRig::MakeRequest(std::size_t prompt,
                                     std::uint32_t outputs,
                                     std::uint32_t rank) {
  engine::Request request;
  request.id = RequestId{++last_id};
  request.rank = RankIndex{rank};
  request.prompt.resize(prompt);
  std::iota(request.prompt.begin(), request.prompt.end(), 1000U);
  request.output_tokens_max = outputs;
  return request;
}

}  // namespace understudy::mocker
