// One request from its NATS message to the end of its response stream.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/engine.h"
#include "understudy/transport/loop.h"
#include "understudy/transport/nats.h"
#include "worker/load_metrics/load_publisher.h"
#include "worker/metrics/metrics.h"
#include "worker/request_path/admission.h"
#include "worker/request_path/request_table.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace understudy::worker {

/// All members on the loop's thread, except those of EngineSink.
class RequestPath final : public engine::EngineSink {
 public:
  struct Options {
    transport::DecodeLimits limits;
    std::size_t open_streams_max = 20'000;
    std::uint32_t dp_size = 1;
  };
  RequestPath(transport::Loop& loop,
              transport::NatsClient& nats,
              engine::Engine& engine,
              LoadPublisher& load,
              Metrics& metrics,
              const Clock& clock,
              Options options);

  /// Requests to `subject` go to the ranks `first_rank` .. + dp size - 1.
  void AddWorker(const std::string& subject, std::uint32_t first_rank, EndpointProbe* probe);

  void OnRequest(const transport::NatsMessage& message);

  // engine threads
  void OnKvEvents(std::vector<engine::KvEvent> events) override;
  void OnPassBatch(engine::PassBatch batch) override;

  [[nodiscard]] std::size_t running() const { return table_.running(); }
  [[nodiscard]] std::size_t open() const { return table_.open(); }
  /// Streams whose reader has not taken everything yet.
  [[nodiscard]] std::size_t undelivered();
  /// Called whenever the last running stream ended.
  void OnIdle(std::function<void()> listener) { on_idle_ = std::move(listener); }
  /// Closes what is still open, without complete_final, so that frontends migrate it.
  void CloseAll();

  struct WorkerCounts {
    std::string subject;
    std::uint64_t requests = 0, errors = 0;
    std::uint64_t processing_ns = 0;
  };
  [[nodiscard]] const std::vector<WorkerCounts>& counts() const { return counts_; }
  struct StreamSummary {
    std::string context_id;
    std::uint32_t worker = 0, dp_rank = 0, prompt_tokens = 0, cached_tokens = 0, tokens_sent = 0,
                  output_tokens_max = 0;
    bool finishing = false;
    double age_s = 0;
  };
  [[nodiscard]] std::vector<StreamSummary> Streams();

 private:
  struct Worker {
    std::uint32_t first_rank = 0;
    std::uint32_t next_rank = 0;  // round robin for requests without a rank
    EndpointProbe* probe = nullptr;
  };

  void Serve(std::uint32_t worker,
             const transport::NatsMessage& message,
             const transport::RequestControl& control,
             std::string_view body,
             TimePoint received);
  void WakeEngineSoon();
  void Ack(const transport::NatsMessage& message, std::string_view text);
  void RefuseForLoad(std::uint32_t worker,
                     const transport::NatsMessage& message,
                     const transport::RequestControl& control,
                     RankIndex rank);
  void RefuseInBand(std::uint32_t worker,
                    const transport::RequestControl& control,
                    const Refusal& refusal);
  void Dial(OpenStream& stream, const transport::RequestControl& control);
  void StreamEnded(RequestId id, transport::StreamEnd end, const std::string& text);
  void Apply(engine::PassBatch& batch);
  void ApplyOutput(const engine::Output& output, const engine::PassBatch& batch);
  void AppendEngineError(const OpenStream& stream,
                         const engine::Output& output,
                         const engine::PassBatch& batch);
  void AppendData(OpenStream& stream);
  void FinishStream(OpenStream& stream);
  void CloseStream(OpenStream& stream);
  void FlushDirty();
  void Ended();
  double SecondsSince(TimePoint start) const;

  transport::Loop& loop_;
  transport::NatsClient& nats_;
  engine::Engine& engine_;
  LoadPublisher& load_;
  Metrics& metrics_;
  const Clock& clock_;
  Options options_;
  RequestTable table_;
  std::atomic<int> batches_posted_{
      0};  // by engine threads, not applied yet; the engine bounds what it has under way
  std::vector<Worker> workers_;
  std::vector<WorkerCounts> counts_;
  std::unordered_map<std::string, std::uint32_t> by_subject_;
  std::vector<OpenStream*> dirty_;
  std::string scratch_;
  std::function<void()> on_idle_;
  int batches_unflushed_ = 0;
  bool load_refused_ = false;
  bool wake_posted_ = false;
  RankIndex refused_rank_{};
};

}  // namespace understudy::worker
