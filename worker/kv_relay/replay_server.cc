#include "worker/kv_relay/replay_server.h"

#include "understudy/transport/kv_batch.h"
#include "worker/log/log.h"

#include <algorithm>
#include <array>
#include <utility>

namespace understudy::worker {

using transport::ZmqSend;

namespace {

constexpr std::string_view kLog = "worker.kv_relay";
constexpr std::size_t kRequestBytesMax = 4096;

}  // namespace

Result<std::unique_ptr<ReplayServer>> ReplayServer::New(
    transport::Loop& loop,
    std::shared_ptr<transport::ZmqContext> context,
    const std::string& endpoint,
    const BatchRing& ring,
    std::chrono::milliseconds stall_max) {
  std::unique_ptr<ReplayServer> self(new ReplayServer(loop, ring, stall_max));
  transport::ZmqLimits limits;
  limits.high_water_mark = kClientMessagesMax;
  limits.message_bytes_max = kRequestBytesMax;
  UNDERSTUDY_TRY(
      self->router_,
      transport::ZmqRouter::New(
          loop, std::move(context), limits, [server = self.get()](transport::ZmqFrames frames) {
            server->OnRequest(frames);
          }));
  if (const auto bound = self->router_->Bind(endpoint); !bound) {
    return Fail(bound.error().code, "ZMQ ROUTER bind to " + bound.error().message);
  }
  return self;
}

ReplayServer::ReplayServer(transport::Loop& loop,
                           const BatchRing& ring,
                           std::chrono::milliseconds stall_max)
    : loop_(loop),
      ring_(ring),
      full_looks_max_(stall_max / kRetry),
      retry_timer_(loop.NewTimer()) {}

void ReplayServer::OnRequest(transport::ZmqFrames frames) {
  // Our ROUTER puts the identity before what the client sent.
  const auto start = frames.size() < 3 ? Result<std::uint64_t>(Fail(Errc::kMalformed, ""))
                                       : transport::ParseSequenceFrame(frames[2]);
  if (!start) {
    if (counters_.malformed++ == 0) {
      Log(LogLevel::kWarn, kLog, "malformed replay request ignored", {{"endpoint", endpoint()}});
    }
    return;
  }
  AcceptRequest(std::string(frames[0]), *start);
}

void ReplayServer::AcceptRequest(std::string identity, std::uint64_t start) {
  ++counters_.requests;
  const bool has_batches = ring_.begin() < ring_.end();
  counters_.outside += !has_batches || start < ring_.begin() || start >= ring_.end() ? 1U : 0U;
  const auto of_client = std::count_if(
      jobs_.begin(), jobs_.end(), [&](const Job& job) { return job.identity == identity; });
  if (jobs_.size() == kClientsMax || static_cast<std::size_t>(of_client) == kRequestsOfClientMax) {
    if (counters_.refused++ == 0) {
      Log(LogLevel::kWarn, kLog, "too many replay requests under way", {{"endpoint", endpoint()}});
    }
    SendEnd(identity);
    return;
  }
  jobs_.push_back({std::move(identity), start, ring_.end(), 0});
  PumpSoon();
}

void ReplayServer::PumpSoon() {
  if (!std::exchange(pump_posted_, true)) {
    loop_.Post([this, alive = std::weak_ptr<const bool>(alive_)] {
      if (!alive.expired()) {
        pump_posted_ = false;
        Pump();
      }
    });
  }
}

ZmqSend ReplayServer::SendEnd(std::string_view identity) {
  const std::string end = transport::SequenceFrame(transport::kReplayEndSequence);
  const std::array<std::string_view, 4> frames = {identity, {}, end, {}};
  return router_->Send(frames);
}

ReplayServer::Step ReplayServer::Advance(Job& job, std::size_t& bytes) {
  job.next = std::max(job.next, ring_.begin());  // what the ring let go meanwhile is gone
  const bool ends = job.next >= job.end;
  ZmqSend sent = ZmqSend::kSent;
  if (ends) {
    sent = SendEnd(job.identity);
  } else {
    const std::string sequence = transport::SequenceFrame(job.next);
    const std::string& payload = ring_.At(job.next);
    const std::array<std::string_view, 4> frames = {job.identity, {}, sequence, payload};
    sent = router_->Send(frames);
    bytes += payload.size();
  }
  switch (sent) {
    case ZmqSend::kFull:
      return Step::kFull;
    case ZmqSend::kNoPeer:
      return Step::kGone;
    case ZmqSend::kSent:
      break;
  }
  job.full_looks = 0;
  if (ends) {
    ++counters_.completed;
    return Step::kDone;
  }
  ++counters_.batches;
  ++job.next;
  return Step::kMore;
}

bool ReplayServer::IsFirstOfItsClient(std::size_t index) const {
  const auto end = jobs_.begin() + static_cast<std::ptrdiff_t>(index);
  return std::none_of(
      jobs_.begin(), end, [&](const Job& job) { return job.identity == jobs_[index].identity; });
}

void ReplayServer::Pump() {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::size_t stuck = 0;  // jobs in a row that could not send
  std::vector<bool> full(jobs_.size(), false);
  while (!jobs_.empty() && stuck < jobs_.size() && messages < kTurnMessagesMax &&
         bytes < kTurnBytesMax) {
    const std::size_t index = turn_++ % jobs_.size();
    if (full[index] || !IsFirstOfItsClient(index)) {
      ++stuck;
      continue;
    }
    Job& job = jobs_[index];
    Step step = Advance(job, bytes);
    if (step == Step::kFull && ++job.full_looks > full_looks_max_) {
      step = Step::kGone;
    }
    if (step == Step::kFull) {
      full[index] = true;
      ++stuck;
      continue;
    }
    stuck = 0;
    ++messages;
    if (step == Step::kDone || step == Step::kGone) {
      counters_.dropped += step == Step::kGone ? 1U : 0U;
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
      full.erase(full.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  if (jobs_.empty()) {
    return;
  }
  if (stuck < jobs_.size()) {
    PumpSoon();
  } else {
    retry_timer_->After(kRetry, [this] { Pump(); });
  }
}

}  // namespace understudy::worker
