#include "understudy/mocker/mocker_engine.h"

#include "plugin/mocker/config/engine_setup.h"
#include "plugin/mocker/config/options.h"
#include "plugin/mocker/handoff/transfer_timing.h"
#include "plugin/mocker/live/engine_thread.h"
#include "plugin/mocker/live/mocker_handoffs.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace understudy::mocker {

namespace {

constexpr std::chrono::milliseconds kDumpWaitMax(1000);
/// A prompt longer than this is refused whatever the worker allows: counters inside are safe up to
/// here.
constexpr std::size_t kPromptTokensMax = std::size_t{1} << 31U;

class MockerEngine final : public engine::Engine, public handoff::CommandPort {
 public:
  MockerEngine(const MockerOptions& options,
               std::unique_ptr<const EngineSetup> setup,
               const Clock& clock)
      : options_(options),
        clock_(clock),
        setup_(std::move(setup)),
        bound_(options.rank_count, options.waiting_requests_max) {
    traits_ = {.rank_count = options.rank_count,
               .blocks_total = options.num_gpu_blocks,
               .block_size = options.block_size,
               .kv_events = setup_->config().kv_events};
    // Ranks that share passes live on one thread.
    group_size_ = setup_->config().semantics.ranks_share_passes ? RanksPerWorker(options) : 1;
    const std::uint32_t groups = options.rank_count / group_size_;
    const std::uint32_t threads = std::min(ThreadCount(options), groups);
    for (std::uint32_t k = 0; k < threads; ++k) {
      const RankHost::Share share{
          .first = k, .stride = threads, .group_count = groups, .group_size = group_size_};
      threads_.push_back(std::make_unique<EngineThread>(setup_->config(), share, bound_, clock));
    }
  }
  ~MockerEngine() override { Stop(); }
  MockerEngine(const MockerEngine&) = delete;
  MockerEngine& operator=(const MockerEngine&) = delete;

  [[nodiscard]] const engine::Traits& traits() const override { return traits_; }
  [[nodiscard]] Status Start(engine::EngineSink& sink) override;
  [[nodiscard]] Status Submit(engine::Request request) override {
    return Take(std::move(request), false);
  }
  [[nodiscard]] Status SubmitQuietly(engine::Request request) override {
    return Take(std::move(request), true);
  }
  void Wake() override {
    if (running_.load(std::memory_order_acquire)) {
      for (const auto& thread : threads_) {
        thread->Wake();
      }
    }
  }
  void Cancel(RequestId id, RankIndex rank) override;
  [[nodiscard]] engine::Handoffs* OpenHandoffs(engine::Post post) override {
    handoffs_ = std::make_shared<MockerHandoffs>(traits_.rank_count,
                                                 handoff::TimingOf(options_),
                                                 static_cast<handoff::CommandPort&>(*this),
                                                 std::move(post));
    return handoffs_.get();
  }
  void ReadRanks(RankIndex first,
                 std::uint32_t count,
                 std::function<void(std::vector<engine::RankStatus>)> done) override {
    AskAll(
        ReadCommand{{first, count}, std::make_shared<Gather<engine::RankStatus>>(std::move(done))});
  }
  void ClearCache(RankIndex first,
                  std::uint32_t count,
                  engine::InUse in_use,
                  std::function<void(std::vector<engine::CacheCleared>)> done) override {
    AskAll(ClearCommand{
        {first, count}, in_use, std::make_shared<Gather<engine::CacheCleared>>(std::move(done))});
  }
  [[nodiscard]] std::string DumpState() override;
  void Stop() override;

 private:
  [[nodiscard]] bool Running() const override { return running_.load(std::memory_order_acquire); }
  [[nodiscard]] Status Send(handoff::Command command) override;
  void CancelRequest(RequestId id, RankIndex rank) override { Cancel(id, rank); }

  template <class Question>
  void AskAll(const Question& question) {
    if (Running()) {
      for (auto& thread : threads_) {
        thread->Push(question);
      }
    }
  }
  [[nodiscard]] EngineThread& ThreadOf(RankIndex rank) {
    return *threads_[Value(rank) / group_size_ % threads_.size()];
  }
  [[nodiscard]] Status Check(const engine::Request& request) const;
  [[nodiscard]] Status Take(engine::Request request, bool quiet);
  [[nodiscard]] Status TakeBound(RankIndex rank);
  [[nodiscard]] tl::unexpected<Error> NotPushed() const;

  const MockerOptions options_;
  const Clock& clock_;
  const std::unique_ptr<const EngineSetup> setup_;
  engine::Traits traits_;
  std::uint32_t group_size_ = 1;  ///< ranks that share passes
  WaitingBound bound_;
  std::mutex lifecycle_;  ///< Start and Stop
  bool started_ = false;
  std::atomic<bool> running_{false};
  std::vector<std::unique_ptr<EngineThread>> threads_;
  std::shared_ptr<MockerHandoffs> handoffs_;  ///< shared with what is on its way to their thread
};

Status MockerEngine::Start(engine::EngineSink& sink) {
  const std::lock_guard lock(lifecycle_);
  if (started_) {
    return Fail(Errc::kUnavailable, "the engine was started before");
  }
  started_ = true;
  const TimePoint ready_at =
      clock_.Now() + std::chrono::duration_cast<Nanoseconds>(options_.startup_time);
  for (auto& thread : threads_) {
    if (Status status = thread->Start(sink, ready_at); !status) {
      for (auto& other : threads_) {
        other->Stop();
      }
      return status;
    }
  }
  running_.store(true, std::memory_order_release);
  return {};
}

Status MockerEngine::Take(engine::Request request, bool quiet) {
  if (!running_.load(std::memory_order_acquire)) {
    return Fail(Errc::kUnavailable, "the engine is not running");
  }
  UNDERSTUDY_TRY_STATUS(Check(request));
  const RankIndex rank = request.rank;
  UNDERSTUDY_TRY_STATUS(TakeBound(rank));
  auto& thread = ThreadOf(rank);
  const bool pushed =
      quiet ? thread.PushQuietly(std::move(request)) : thread.Push(std::move(request));
  if (!pushed) {
    bound_.GiveBack(rank, 1);
    return NotPushed();
  }
  return {};
}

Status MockerEngine::TakeBound(RankIndex rank) {
  if (!bound_.Take(rank)) {
    return Fail(Errc::kOverloaded,
                "rank " + std::to_string(Value(rank)) + " has " + std::to_string(bound_.max()) +
                    " waiting requests");
  }
  return {};
}

tl::unexpected<Error> MockerEngine::NotPushed() const {
  return Running() ? Fail(Errc::kOverloaded, "the engine's mailbox is full")
                   : Fail(Errc::kUnavailable, "the engine is not running");
}

Status MockerEngine::Send(handoff::Command command) {
  if (!Running()) {
    return Fail(Errc::kUnavailable, "the engine is not running");
  }
  const RankIndex rank = command.rank;
  const bool submits = command.Submits();
  if (submits) {
    UNDERSTUDY_TRY_STATUS(Check(command.request));
    UNDERSTUDY_TRY_STATUS(TakeBound(rank));
  }
  if (!ThreadOf(rank).Push(std::make_unique<handoff::Command>(std::move(command)))) {
    bound_.GiveBack(rank, submits ? 1 : 0);
    return NotPushed();
  }
  return {};
}

Status MockerEngine::Check(const engine::Request& request) const {
  if (Value(request.rank) >= traits_.rank_count) {
    return Fail(Errc::kMalformed,
                "rank " + std::to_string(Value(request.rank)) + " is out of bounds for " +
                    std::to_string(traits_.rank_count) + " ranks");
  }
  if (request.output_tokens_max == 0) {
    return Fail(Errc::kMalformed, "output_tokens_max must be at least 1");
  }
  if (!request.planned_tokens.empty() &&
      request.planned_tokens.size() != request.output_tokens_max) {
    return Fail(Errc::kMalformed,
                "planned_tokens holds " + std::to_string(request.planned_tokens.size()) +
                    " ids, output_tokens_max is " + std::to_string(request.output_tokens_max));
  }
  if (request.prompt.size() > kPromptTokensMax) {
    return Fail(Errc::kMalformed,
                "a prompt of " + std::to_string(request.prompt.size()) + " tokens is too long");
  }
  return {};
}

void MockerEngine::Cancel(RequestId id, RankIndex rank) {
  if (Value(rank) < traits_.rank_count && running_.load(std::memory_order_acquire)) {
    ThreadOf(rank).Push(CancelCommand{id, rank});
  }
}

std::string MockerEngine::DumpState() {
  const auto reply = std::make_shared<DumpCollector>();
  std::size_t asked = 0;
  if (running_.load(std::memory_order_acquire)) {
    for (auto& thread : threads_) {
      asked += thread->Push(DumpCommand{reply}) ? 1U : 0U;
    }
  }
  const std::vector<std::string> parts = reply->Wait(asked, kDumpWaitMax);
  std::string out = "{\"engine\":\"mocker\",\"ranks_total\":" + std::to_string(traits_.rank_count) +
                    ",\"blocks_total\":" + std::to_string(traits_.blocks_total) +
                    ",\"block_size\":" + std::to_string(traits_.block_size) +
                    ",\"threads_silent\":" + std::to_string(threads_.size() - parts.size()) +
                    ",\"threads\":[";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : ",") + parts[i];
  }
  return out + "]}";
}

void MockerEngine::Stop() {
  const std::lock_guard lock(lifecycle_);
  running_.store(false, std::memory_order_release);
  for (auto& thread : threads_) {
    thread->Stop();
  }
  if (handoffs_) {
    handoffs_->EngineStopped();
  }
}

}  // namespace

Result<std::unique_ptr<engine::Engine>> NewMockerEngine(MockerOptions options,
                                                        const Clock& clock,
                                                        std::vector<std::string>* warnings) {
  UNDERSTUDY_TRY(auto setup, EngineSetup::New(options));
  if (warnings != nullptr) {
    *warnings = setup->warnings();
  }
  return std::make_unique<MockerEngine>(options, std::move(setup), clock);
}

}  // namespace understudy::mocker
