// One request from its NATS message to the end of its response stream.
#pragma once

#include "understudy/base/clock.h"
#include "understudy/engine/engine.h"
#include "understudy/transport/loop.h"
#include "worker/event_side/event_side.h"
#include "worker/handoff/handoff_side.h"
#include "worker/metrics/metrics.h"
#include "worker/metrics/native_metrics.h"
#include "worker/request_path/admission.h"
#include "worker/request_path/ingress.h"
#include "worker/request_path/request_table.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::worker {

/// All members on the loop's thread, except those of EngineSink.
class RequestPath final : public engine::EngineSink, public Endpoint {
 public:
  struct Options {
    AdmissionRules rules;
    std::size_t open_streams_max = 20'000;
    HandoffSide* handoffs = nullptr;  ///< null: aggregated workers
    engine::Handoffs* handoff_engine =
        nullptr;  ///< hears what batches say of hand-offs; may be null
  };
  RequestPath(transport::Loop& loop,
              Ingress& ingress,
              engine::Engine& engine,
              EventSide& events,
              Metrics& metrics,
              NativeMetrics& native,
              const Clock& clock,
              Options options);

  /// Requests to `subject` go to the ranks `first_rank` .. + dp size - 1.
  void AddWorker(const std::string& subject, std::uint32_t first_rank, EndpointProbe* probe);

  void Serve(const IncomingRequest& request) override;

  // engine threads
  void OnKvEvents(std::vector<engine::KvEvent> events) override;
  void OnPassBatch(engine::PassBatch batch) override;

  [[nodiscard]] std::size_t running() const { return table_.running(); }
  [[nodiscard]] std::size_t running(std::uint32_t worker) const { return table_.running(worker); }
  [[nodiscard]] std::size_t open() const { return table_.open(); }
  /// Streams whose reader has not taken everything yet.
  [[nodiscard]] std::size_t undelivered();
  /// Called whenever the last running stream ended.
  void OnIdle(std::function<void()> listener) { on_idle_ = std::move(listener); }
  /// Closes what is still open, without complete_final, so that frontends migrate it.
  void CloseAll();

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
    std::uint32_t entry = 0;      // of the ingress
    EndpointProbe* probe = nullptr;
  };

  void NoteReplayMiss(ReplayMiss miss, const transport::RequestControl& control);
  [[nodiscard]] Status Submit(OpenStream& stream, Admitted& admitted);
  void RefuseSubmission(const IncomingRequest& incoming, RankIndex rank, const Error& error);
  void WakeEngineSoon();
  /// `why` goes into the acknowledgement.
  void RefuseForLoad(const IncomingRequest& request, RankIndex rank, std::string_view why);
  void RefuseInBand(std::uint32_t worker,
                    const transport::RequestControl& control,
                    const Refusal& refusal);
  void Dial(OpenStream& stream, const transport::RequestControl& control);
  void StreamEnded(RequestId id, transport::StreamEnd end, const std::string& text);
  void Apply(engine::PassBatch& batch);
  void ApplyOutput(const engine::Output& output, const engine::PassBatch& batch);
  void AppendOutputToken(OpenStream& stream, std::uint32_t token);
  void AppendLength(OpenStream& stream);
  void CancelInEngine(const OpenStream& stream);
  void AppendEngineError(const OpenStream& stream,
                         const engine::Output& output,
                         const engine::PassBatch& batch);
  // handoff_streams.cc
  [[nodiscard]] bool EndIsHeldBack(OpenStream& stream);
  void HandoffEnded(RequestId id, const Status& status);
  void SignalHandoffs(engine::PassBatch& batch, std::size_t outputs_applied, std::size_t& next);
  void AppendData(OpenStream& stream);
  void FinishStream(OpenStream& stream);
  void RecordTokens(OpenStream& stream, TimePoint now);
  void RecordCompletion(OpenStream& stream);
  void CloseStream(OpenStream& stream);
  void FlushDirty();
  void Ended();
  double SecondsSince(TimePoint start) const;

  transport::Loop& loop_;
  Ingress& ingress_;
  engine::Engine& engine_;
  EventSide& events_;
  Metrics& metrics_;
  NativeMetrics& native_;
  const Clock& clock_;
  Options options_;
  RequestTable table_;
  std::atomic<int> batches_posted_{
      0};  // by engine threads, not applied yet; the engine bounds what it has under way
  std::vector<Worker> workers_;
  std::vector<OpenStream*> dirty_;
  std::string scratch_;
  std::function<void()> on_idle_;
  int batches_unflushed_ = 0;
  bool load_refused_ = false;
  bool no_table_said_ = false, unknown_key_said_ = false;
  bool wake_posted_ = false;
  RankIndex refused_rank_{};
};

}  // namespace understudy::worker
