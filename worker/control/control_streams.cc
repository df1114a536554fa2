#include "worker/control/control_streams.h"

#include "worker/log/log.h"

#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.control";
constexpr std::string_view kOverloaded = "Server overloaded: too many control requests";
constexpr std::string_view kUnavailable = "Server unavailable: too many control requests";

/// What Dynamo calls it.
const char* ErrorTypeOf(Errc code) {
  switch (code) {
    case Errc::kMalformed:
    case Errc::kUnsupported:
      return "InvalidArgument";
    case Errc::kOverloaded:
      return "ResourceExhausted";
    case Errc::kUnavailable:
    case Errc::kTimeout:
      return "Unavailable";
    case Errc::kCancelled:
      return "Cancelled";
    default:
      return "Unknown";
  }
}

}  // namespace

ControlStreams::Stream* ControlStreams::Find(Id id) {
  const auto found = streams_.find(id);
  return found == streams_.end() || found->second.finished ? nullptr : &found->second;
}

ControlStreams::Id ControlStreams::Open(const IncomingRequest& request) {
  const std::string& caller = request.control.address;
  std::size_t& of_caller = by_caller_[caller];
  if (streams_.size() >= kStreamsMax || of_caller >= kStreamsPerCallerMax) {
    if (of_caller == 0) {
      by_caller_.erase(caller);
    }
    const bool msgpack = request.control.codec == transport::PayloadCodec::kMsgpack;
    ingress_.Ack(request.message, msgpack ? kOverloaded : kUnavailable);
    ingress_.CountError(request.entry);
    metrics_.Refused(ControlRefusal::kOverloaded);
    Log(LogLevel::kWarn,
        kTarget,
        "control request refused: too many are open",
        {{"caller", ShortText(caller)}, {"open", std::to_string(streams_.size())}});
    return 0;
  }
  ++of_caller;
  ingress_.Ack(request.message, "");
  const Id id = ++last_;
  Stream& stream = streams_[id];
  stream.codec = request.control.codec;
  stream.entry = request.entry;
  stream.caller = caller;
  stream.unread = loop_.NewTimer();
  stream.response = OpenResponse(
      loop_,
      request.control,
      stream.appended,
      [this, id](transport::StreamEnd /*end*/, const std::string& text) { Ended(id, text); });
  stream.response->OnSent([this, id] { Sent(id); });
  CountStreams();
  return id;
}

bool ControlStreams::Stay(Id id) {
  Stream* stream = Find(id);
  if (stream == nullptr || long_ >= kLongStreamsMax) {
    return false;
  }
  long_ += std::exchange(stream->stays, true) ? 0U : 1U;
  return true;
}

void ControlStreams::LeaveLong(Stream& stream) {
  long_ -= std::exchange(stream.stays, false) ? 1U : 0U;
}

void ControlStreams::OnGone(Id id, std::function<void()> gone) {
  if (Stream* stream = Find(id)) {
    stream->gone = std::move(gone);
  }
}

void ControlStreams::OnRoom(Id id, std::function<void()> room) {
  if (Stream* stream = Find(id)) {
    stream->room = std::move(room);
  }
}

bool ControlStreams::HasRoom(Id id) {
  const Stream* stream = Find(id);
  return stream != nullptr && stream->response->unsent() == 0;
}

void ControlStreams::Append(Id id, const transport::ControlItem& item) {
  if (Stream* stream = Find(id)) {
    std::string frame;
    transport::AppendControlItem(frame, stream->codec, item);
    stream->response->Append(frame);
  }
}

void ControlStreams::Flush(Id id) {
  Stream* stream = Find(id);
  if (stream == nullptr) {
    return;
  }
  stream->response->Flush();
  if (stream->response->unsent() > 0 && !stream->watched_at) {
    WatchReader(id, *stream);
  }
}

void ControlStreams::WatchReader(Id id, Stream& stream) {
  stream.watched_at = stream.response->bytes_sent();
  stream.unread->After(kUnreadWait, [this, id] {
    Stream* watched = Find(id);
    if (watched == nullptr) {
      return;
    }
    if (watched->response->bytes_sent() != *watched->watched_at) {
      WatchReader(id, *watched);  // slow, but it reads
      return;
    }
    Log(LogLevel::kWarn,
        kTarget,
        "an answer is not read, its connection is closed",
        {{"caller", ShortText(watched->caller)}});
    Ended(id, "not read");
  });
}

void ControlStreams::Sent(Id id) {
  Stream* stream = Find(id);
  if (stream == nullptr) {
    return;
  }
  stream->unread->Cancel();
  stream->watched_at.reset();
  if (const auto room = stream->room) {
    room();  // a copy: it may replace itself
  }
}

void ControlStreams::SendStatus(Id id, bool success, std::string_view message) {
  if (Stream* stream = Find(id)) {
    std::string frame;
    transport::AppendStatusMessage(frame, stream->codec, success, message);
    stream->response->Append(frame);
    Finish(id);
  }
}

void ControlStreams::Refuse(Id id, const Error& error) {
  Stream* stream = Find(id);
  if (stream == nullptr) {
    return;
  }
  const bool invalid = error.code == Errc::kMalformed || error.code == Errc::kUnsupported;
  const bool overloaded = error.code == Errc::kOverloaded;
  metrics_.Refused(invalid      ? ControlRefusal::kInvalid
                   : overloaded ? ControlRefusal::kOverloaded
                                : ControlRefusal::kUnservable);
  ingress_.CountError(stream->entry);
  Log(LogLevel::kWarn,
      kTarget,
      "control request refused",
      {{"caller", ShortText(stream->caller)}, {"error", ShortText(error.message)}});
  std::string frame;
  transport::AppendErrorItem(frame, stream->codec, ErrorTypeOf(error.code), error.message);
  stream->response->Append(frame);
  Finish(id);
}

void ControlStreams::Finish(Id id) {
  Stream* stream = Find(id);
  if (stream == nullptr) {
    return;
  }
  std::string end;
  transport::AppendCompleteFinal(end, stream->codec);
  transport::AppendSentinel(end);
  stream->response->Append(end);
  stream->gone = stream->room = nullptr;
  stream->response->OnSent(nullptr);
  stream->unread->Cancel();
  stream->finished = true;
  LeaveLong(*stream);
  stream->response->Finish();
}

void ControlStreams::Ended(Id id, const std::string& text) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;
  }
  const Stream stream = std::move(found->second);
  streams_.erase(found);
  if (const auto of_caller = by_caller_.find(stream.caller); --of_caller->second == 0) {
    by_caller_.erase(of_caller);
  }
  long_ -= stream.stays ? 1U : 0U;
  CountStreams();
  if (!stream.finished && LogEnabled(LogLevel::kDebug, kTarget)) {
    Log(LogLevel::kDebug, kTarget, "a controller ended its stream", {{"reason", text}});
  }
  if (stream.gone) {
    stream.gone();
  }
}

void ControlStreams::CloseAll() {
  streams_.clear();
  by_caller_.clear();
  long_ = 0;
  CountStreams();
}

}  // namespace understudy::worker
