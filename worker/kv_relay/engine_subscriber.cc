#include "worker/kv_relay/engine_subscriber.h"

#include "worker/log/log.h"

#include <array>
#include <utility>

namespace understudy::worker {

using transport::RouterEvent;

namespace {

constexpr std::string_view kLog = "worker.kv_relay";

}  // namespace

Result<std::unique_ptr<EngineSubscriber>> EngineSubscriber::New(
    transport::Loop& loop,
    std::shared_ptr<transport::ZmqContext> context,
    Options options,
    Handler handler) {
  std::unique_ptr<EngineSubscriber> self(
      new EngineSubscriber(loop, std::move(context), std::move(options), std::move(handler)));
  UNDERSTUDY_TRY_STATUS(self->Open());
  return self;
}

EngineSubscriber::EngineSubscriber(transport::Loop& loop,
                                   std::shared_ptr<transport::ZmqContext> context,
                                   Options options,
                                   Handler handler)
    : loop_(loop),
      context_(std::move(context)),
      options_(std::move(options)),
      handler_(std::move(handler)),
      converter_(options_.converter),
      order_(*this, options_.order_limits),
      silence_timer_(loop.NewTimer()),
      pause_timer_(loop.NewTimer()) {}

EngineSubscriber::~EngineSubscriber() = default;

Status EngineSubscriber::Open() {
  UNDERSTUDY_TRY(
      subscriber_,
      transport::ZmqSubscriber::New(loop_,
                                    context_,
                                    options_.topic,
                                    options_.zmq_limits,
                                    [this](transport::ZmqFrames frames) { OnMessage(frames); }));
  UNDERSTUDY_TRY_STATUS(subscriber_->Connect(options_.endpoint));
  if (options_.replay_endpoint.empty()) {
    return {};
  }
  UNDERSTUDY_TRY_STATUS(OpenDealer());
  if (options_.replay_from_start) {
    order_.Begin();
  }
  return {};
}

Status EngineSubscriber::OpenDealer() {
  UNDERSTUDY_TRY(dealer_,
                 transport::ZmqDealer::New(
                     loop_, context_, options_.zmq_limits, [this](transport::ZmqFrames frames) {
                       OnReply(frames);
                     }));
  return dealer_->Connect(options_.replay_endpoint);
}

void EngineSubscriber::Bad(Episode& episode, std::uint64_t count, const std::string& why) {
  if (episode.count == 0) {
    Log(LogLevel::kWarn,
        kLog,
        std::string(episode.what),
        {{"endpoint", options_.endpoint}, {"first", why}});
  }
  episode.count += count;
  episode.good_since = 0;
}

void EngineSubscriber::Good(Episode& episode) {
  if (episode.count > 0 && ++episode.good_since >= kGoodOnesThatEndIt) {
    Log(LogLevel::kInfo,
        kLog,
        "no more " + std::string(episode.what),
        {{"endpoint", options_.endpoint}, {"count", std::to_string(episode.count)}});
    episode.count = 0;
  }
}

void EngineSubscriber::OnMessage(transport::ZmqFrames frames) {
  ++counters_.messages;
  for (const std::string_view frame : frames) {
    counters_.bytes += frame.size();
  }
  const auto message = transport::ParseEngineMessage(frames);
  if (!message) {
    ++counters_.bad_frames;
    Bad(frames_episode_, 1, message.error().message);
    return;
  }
  Good(frames_episode_);
  unheard_ = false;
  order_.Live(message->sequence, message->payload);
}

void EngineSubscriber::OnReply(transport::ZmqFrames frames) {
  if (!order_.is_replaying()) {
    return;
  }
  const auto reply = transport::ParseReplayReply(frames);
  if (!reply) {
    ++counters_.bad_replies;
    Bad(frames_episode_, 1, reply.error().message);
    return;
  }
  unheard_ = false;
  if (reply->ended) {
    silence_timer_->Cancel();
    order_.ReplayEnded();
    return;
  }
  if (!order_.Replayed(reply->sequence, reply->payload)) {
    ++counters_.bad_replies;
    Bad(frames_episode_,
        1,
        "replay reply: sequence " + std::to_string(reply->sequence) + " was never sent");
    return;
  }
  if (order_.is_replaying()) {
    silence_timer_->After(options_.replay_silence_max, [this] { OnReplaySilence(); });
  }
}

void EngineSubscriber::OnFirstSilence() {
  AbandonReplay();
  order_.ReplayEnded();
  if (dealer_ != nullptr) {
    order_.Begin();  // the engine may still be loading its model
  }
}

void EngineSubscriber::OnReplaySilence() {
  if (unheard_) {
    OnFirstSilence();
    return;
  }
  ++counters_.replay_silences;
  Log(LogLevel::kWarn,
      kLog,
      "the engine's replay socket does not answer; gaps are not repaired for a while",
      {{"endpoint", options_.replay_endpoint},
       {"pause_ms", std::to_string(options_.replay_pause.count())}});
  replay_paused_ = true;
  pause_timer_->After(options_.replay_pause, [this] { replay_paused_ = false; });
  AbandonReplay();
  order_.ReplayEnded();
}

void EngineSubscriber::OnBatch(std::string_view payload, bool /*replayed*/) {
  const auto batch = transport::DecodeKvBatch(payload, options_.batch_limits);
  if (!batch) {
    ++counters_.bad_batches;
    Bad(batch_episode_, 1, batch.error().message);
    return;
  }
  Good(batch_episode_);
  Good(lost_episode_);
  if (batch->problems_total > 0) {
    const auto& first = batch->problems.front();
    Bad(event_episode_,
        batch->problems_total,
        "event " + std::to_string(first.position) + ": " + first.text);
  } else if (!batch->events.empty()) {
    Good(event_episode_);
  }
  if (batch->dp_rank && DpRank{*batch->dp_rank} != options_.converter.dp_rank &&
      counters_.foreign_ranks++ == 0) {
    Log(LogLevel::kWarn,
        kLog,
        "an engine names another data-parallel rank than its port stands for",
        {{"endpoint", options_.endpoint},
         {"dp_rank", std::to_string(Value(options_.converter.dp_rank))},
         {"named", std::to_string(*batch->dp_rank)}});
  }
  std::vector<RouterEvent> events;
  converter_.Convert(*batch, events);
  if (!events.empty()) {
    handler_(std::move(events));
  }
}

void EngineSubscriber::OnLost(std::uint64_t batches) {
  Bad(lost_episode_, batches, std::to_string(batches) + " batches");
}

void EngineSubscriber::OnRestart() {
  Log(LogLevel::kInfo,
      kLog,
      "the engine started anew; its blocks are forgotten",
      {{"endpoint", options_.endpoint}});
  std::vector<RouterEvent> events;
  converter_.Restart(events);
  if (!events.empty()) {
    handler_(std::move(events));
  }
}

bool EngineSubscriber::RequestReplay(std::uint64_t start) {
  if (dealer_ == nullptr || replay_paused_) {
    return false;
  }
  const std::string sequence = transport::SequenceFrame(start);
  const std::array<std::string_view, 2> frames = {std::string_view(), sequence};
  if (dealer_->Send(frames) != transport::ZmqSend::kSent) {
    return false;
  }
  ++counters_.replay_requests;
  silence_timer_->After(options_.replay_silence_max, [this] { OnReplaySilence(); });
  return true;
}

void EngineSubscriber::AbandonReplay() {
  silence_timer_->Cancel();
  // A new socket has a new identity: replies to the old request find nobody.
  dealer_.reset();
  if (auto opened = OpenDealer(); !opened) {
    dealer_.reset();
    Log(LogLevel::kWarn,
        kLog,
        "gaps of kv events are not repaired any more",
        {{"error", opened.error().message}});
  }
}

}  // namespace understudy::worker
