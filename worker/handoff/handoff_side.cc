#include "worker/handoff/handoff_side.h"

#include "plugin/mocker/handoff/transfer_timing.h"
#include "worker/handoff/wire.h"
#include "worker/log/log.h"

#include <random>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.handoff";
constexpr std::uint64_t kVersionMask = 0xFFFF'FFFF'FFFF'0FFF, kVersion4 = 0x4000;
constexpr std::uint64_t kVariantMask = 0x3FFF'FFFF'FFFF'FFFF, kVariant1 = 0x8000'0000'0000'0000;

/// Frontends name requests by UUIDs; a request that is named otherwise meets nobody.
Uuid RequestUuid(const std::string& context_id) {
  if (const auto uuid = ParseUuid(context_id)) {
    return *uuid;
  }
  std::random_device device;
  const auto half = [&device] { return std::uint64_t{device()} << 32 | device(); };
  return {(half() & kVersionMask) | kVersion4, (half() & kVariantMask) | kVariant1};
}

}  // namespace

HandoffSummary Summarize(const HandoffPart& part, const char* state, TimePoint now) {
  return {part.context_id,
          ToText(part.identity.handoff_id),
          part.worker,
          state,
          std::chrono::duration<double>(now - part.begun).count()};
}

void PartOver(const HandoffPart& part,
              const SessionPlace& place,
              HandoffMetrics& metrics,
              const Status& status,
              bool cancelled) {
  const auto result = cancelled ? HandoffResult::kCancelled
                      : status  ? HandoffResult::kCompleted
                                : HandoffResult::kFailed;
  metrics.Over(result, std::chrono::duration<double>(place.clock.Now() - part.begun).count());
  const auto level = result == HandoffResult::kFailed ? LogLevel::kWarn : LogLevel::kDebug;
  if (LogEnabled(level, kTarget)) {
    constexpr const char* kNames[] = {
        "hand-off completed", "hand-off failed", "hand-off cancelled"};
    Log(level,
        kTarget,
        kNames[static_cast<std::size_t>(result)],
        {{"request_id", part.context_id},
         {"handoff_id", ToText(part.identity.handoff_id)},
         {"reason", status ? "" : status.error().message}});
  }
}

HandoffSide::HandoffSide(transport::Loop& loop,
                         const Clock& clock,
                         engine::Handoffs& engine,
                         const Options& options)
    : loop_(loop),
      options_(options),
      place_{loop, clock, options.session_timeout},
      engine_(engine),
      metrics_(HandoffMetrics::New(options.role == mocker::WorkerType::kPrefill ? "source"
                                                                                : "destination")),
      permits_(options.workers, SessionPermits(options.dp_size, options.sessions_max)),
      sources_(place_,
               {*metrics_, [this](RequestId id, const Status& status) { Ended(id, status); }},
               options.sessions_max * options.dp_size),
      destinations_(
          place_, {*metrics_, [this](RequestId id, const Status& status) { Ended(id, status); }}) {}

HandoffSide::~HandoffSide() = default;

Status HandoffSide::Begin(HandoffAsk ask) {
  if (shut_down_) {
    return Fail(Errc::kUnavailable, "mocker is shutting down");
  }
  UNDERSTUDY_TRY(auto permit, permits_[ask.worker].Take(ask.dp_rank));
  return options_.role == mocker::WorkerType::kPrefill
             ? BeginSource(std::move(ask), std::move(permit))
             : BeginDestination(std::move(ask), std::move(permit));
}

HandoffSide::Part HandoffSide::Prepare(HandoffAsk& ask, HandoffRequest& handoff) {
  HandoffPart part;
  part.request = ask.request.id;
  part.worker = ask.worker;
  part.identity = {*ask.bootstrap.handoff_id, ask.bootstrap.room, RequestUuid(ask.context_id)};
  part.begun = place_.clock.Now();
  auto registration = engine_.Register({part.identity.handoff_id}, ask.request.rank);
  if (!registration) {
    const bool taken = registration.error().code == Errc::kOverloaded;
    return Fail(taken ? Errc::kMalformed : registration.error().code, registration.error().message);
  }
  handoff.registration = std::move(*registration);
  // The request table sees to it that a context id is live once; the engine may still be taking
  // back an earlier attempt under it.
  auto name = ask.context_id + "#" + std::to_string(Value(part.request));
  UNDERSTUDY_TRY(auto prepared, engine_.Prepare(std::move(ask.request), std::move(name)));
  handoff.request = std::move(prepared.request);
  part.life = std::move(prepared.life);
  part.context_id = std::move(ask.context_id);
  return part;
}

Status HandoffSide::BeginSource(HandoffAsk ask, SessionPermit permit) {
  if (!sources_.listens()) {
    return Fail(Errc::kMalformed, "source handoff manager is not initialized");
  }
  SourceParticipant source;
  UNDERSTUDY_TRY(source.order, OrderOf(options_.engine_type));
  source.engine_type = options_.engine_type;
  source.handoff.permit = std::move(permit);
  UNDERSTUDY_TRY(auto part, Prepare(ask, source.handoff));
  source.identity = part.identity;
  return sources_.Begin(std::move(part), std::move(source));
}

Status HandoffSide::BeginDestination(HandoffAsk ask, SessionPermit permit) {
  UNDERSTUDY_TRY(const auto order, OrderOf(options_.engine_type));
  HandoffRequest handoff;
  handoff.permit = std::move(permit);
  const transport::BootstrapTarget target{std::move(ask.bootstrap.host), ask.bootstrap.port};
  const transport::BootstrapRegister registration{
      ask.dp_rank, ToWire(order), ToWire(options_.engine_type)};
  UNDERSTUDY_TRY(auto part, Prepare(ask, handoff));
  destinations_.Begin(std::move(part), std::move(handoff), target, registration);
  return {};
}

bool HandoffSide::LastToken(RequestId id, bool handed_over, std::uint32_t prompt_tokens) {
  if (options_.role == mocker::WorkerType::kDecode) {
    if (handed_over) {
      destinations_.LastToken(id);
    }
    return false;
  }
  return handed_over ? sources_.LastToken(id) : Delay(id, prompt_tokens);
}

bool HandoffSide::Delay(RequestId id, std::uint32_t prompt_tokens) {
  engine::TransferTiming timing = options_.timing;
  timing.mode = engine::TransferTiming::Mode::kFullPrompt;  // nobody says what is missing
  timing.full_prompt_tokens = prompt_tokens;
  const double delay_ms = mocker::handoff::DelayMs(timing, 0).value_or(0.0);
  if (delay_ms <= 0.0) {
    return false;
  }
  auto& timer = delays_[id];
  timer = loop_.NewTimer();
  timer->After(DelayOf(delay_ms), [this, id] {
    const auto over = delays_.extract(id);  // the timer lives on until this task is through
    Ended(id, {});
  });
  return true;
}

void HandoffSide::Cancel(RequestId id) {
  if (options_.role == mocker::WorkerType::kDecode) {
    destinations_.Cancel(id);
  } else {
    delays_.erase(id);
    sources_.Cancel(id);
  }
}

void HandoffSide::Ended(RequestId id, const Status& status) {
  if (ended_) {
    ended_(id, status);
  }
}

void HandoffSide::Shutdown(std::function<void()> closed) {
  shut_down_ = true;
  delays_.clear();
  sources_.Shutdown([this, closed = std::move(closed)] {
    destinations_.Shutdown([this, closed] {
      engine_.Shutdown([closed](const Status& result) {
        if (!result) {
          Log(LogLevel::kError, kTarget, result.error().message);
        }
        closed();
      });
    });
  });
}

std::string HandoffSide::Scrape() {
  HandoffMetrics::Totals totals;
  for (const auto& permits : permits_) {
    totals.refused += permits.refused_total();
  }
  sources_.AddTotals(totals);
  return metrics_->Scrape(totals);
}

std::string HandoffSide::DumpState() const {
  nlohmann::ordered_json dump;
  dump["role"] = options_.role == mocker::WorkerType::kPrefill ? "prefill" : "decode";
  dump["bootstrap_ports"] = ports();
  dump["permits_taken"] = nlohmann::ordered_json::array();
  for (const auto& permits : permits_) {
    for (std::uint32_t rank = 0; rank < options_.dp_size; ++rank) {
      dump["permits_taken"].push_back(permits.taken(rank));
    }
  }
  dump["delayed"] = delays_.size();
  dump["sessions"] = nlohmann::ordered_json::array();
  auto all = sources_.Summaries();
  for (auto& one : destinations_.Summaries()) {
    all.push_back(std::move(one));
  }
  for (const auto& one : all) {
    dump["sessions"].push_back({{"request_id", one.context_id},
                                {"handoff_id", one.handoff_id},
                                {"worker", one.worker},
                                {"state", one.state},
                                {"age_s", one.age_s}});
  }
  return dump.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace understudy::worker
