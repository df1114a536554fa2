#include "worker/request_path/ingress.h"

#include "worker/log/log.h"

#include <charconv>
#include <chrono>
#include <span>
#include <utility>

namespace understudy::worker {
namespace {

constexpr std::string_view kTarget = "worker.request_path";

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string ShortText(std::string_view text) {
  constexpr std::size_t kLogTextMax = 200;
  return std::string(text.substr(0, kLogTextMax));
}

Result<transport::RequestControl> ParseEnvelope(std::string_view payload, std::string_view& body) {
  // All of it is in memory already: a body over its limit is refused in its stream, which needs the
  // header.
  UNDERSTUDY_TRY(const auto frame, transport::ParseTwoPart(payload, payload.size()));
  UNDERSTUDY_TRY(auto control, transport::ParseRequestControl(frame.header));
  if (control.transport != "tcp_server") {
    return Fail(Errc::kUnsupported,
                "response plane mismatch: frontend requested " + control.transport +
                    ", worker configured tcp");
  }
  body = frame.body;
  return control;
}

std::unique_ptr<transport::ResponseStream> OpenResponse(
    transport::Loop& loop,
    const transport::RequestControl& control,
    std::uint64_t& appended_bytes,
    std::function<void(transport::StreamEnd, const std::string&)> on_end) {
  auto response = transport::DialResponseStream(loop, control.address, std::move(on_end));
  std::string first;
  transport::AppendHandshake(first, control.subject);
  transport::AppendPrologue(first);
  appended_bytes += first.size();
  response->Append(first);
  response->Flush();
  return response;
}

std::uint32_t Ingress::Add(const std::string& subject,
                           Endpoint& endpoint,
                           std::uint32_t target,
                           EndpointProbe* probe) {
  const auto entry = static_cast<std::uint32_t>(entries_.size());
  by_subject_[subject] = entry;
  entries_.push_back({&endpoint, target, probe});
  counts_.push_back({subject});
  return entry;
}

void Ingress::OnRequest(const transport::NatsMessage& message) {
  const auto received = clock_.Now();
  const auto known = by_subject_.find(std::string(message.subject));
  if (known == by_subject_.end()) {
    Ack(message, "Server unavailable: unknown endpoint " + std::string(message.subject));
    return;
  }
  const auto number = known->second;
  const Entry entry = entries_[number];
  const auto payload = TextOf(message.payload);
  ++counts_[number].requests;
  if (entry.probe != nullptr) {
    entry.probe->RequestArrived(payload.size());
  }
  NoteTransit(message);
  std::string_view body;
  const auto control = ParseEnvelope(payload, body);
  if (!control) {  // no address to call: the ack is the only way to tell the peer
    metrics_.BadFrame();
    CountError(number);
    if (entry.probe != nullptr) {
      entry.probe->Failed(ErrorType::kInvalidMessage);
    }
    Log(LogLevel::kWarn,
        kTarget,
        "request without a usable envelope",
        {{"error", ShortText(control.error().message)}, {"bytes", std::to_string(payload.size())}});
    Ack(message, "Server unavailable: " + control.error().message);
    return;
  }
  entry.endpoint->Serve({entry.target, number, message, *control, body, received});
  counts_[number].processing_ns += static_cast<std::uint64_t>((clock_.Now() - received).count());
}

void Ingress::NoteTransit(const transport::NatsMessage& message) {
  const auto sent = message.header("x-frontend-send-ts-ns");
  if (!sent) {
    return;
  }
  std::int64_t sent_ns = 0;
  std::from_chars(sent->data(), sent->data() + sent->size(), sent_ns);
  const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  metrics_.NetworkTransit(
      sent_ns > 0 && now_ns > sent_ns ? static_cast<double>(now_ns - sent_ns) * 1e-9 : 0.0);
}

void Ingress::Ack(const transport::NatsMessage& message, std::string_view text) {
  if (message.reply.empty()) {
    return;
  }
  if (auto sent = nats_.Publish(std::string(message.reply), std::as_bytes(std::span(text)));
      !sent) {
    Log(LogLevel::kWarn, kTarget, "acknowledgement not sent", {{"error", sent.error().message}});
  }
}

}  // namespace understudy::worker
