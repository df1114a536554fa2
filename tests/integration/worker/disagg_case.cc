#include "tests/integration/worker/disagg_case.h"

#include <random>
#include <utility>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

bool IsIdle(const nlohmann::json& dump) {
  if (!dump.is_object() || !dump["streams"].empty() || !dump["handoffs"]["sessions"].empty()) {
    return false;
  }
  for (const auto& taken : dump["handoffs"]["permits_taken"]) {
    if (taken != 0) {
      return false;
    }
  }
  for (const auto& thread : dump["engine"]["threads"]) {
    if (thread["handoffs"] != 0) {
      return false;
    }
    for (const auto& rank : thread["ranks"]) {
      if (rank["blocks_active"] != 0 || rank["requests_running"] != 0 ||
          rank["requests_waiting"] != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

transport::BootstrapIdentity Attempt::identity() const {
  return {*info.handoff_id, info.room, ParseUuid(id).value_or(Uuid{})};
}

HandoffTest::HandoffTest() {
  environment["DYN_HTTP_RPC_HOST"] = "127.0.0.1";
}

WorkerTest::Worker HandoffTest::StartPrefill(const Arguments& arguments) {
  return Start(Arguments{"--disaggregation-mode", "prefill"} + arguments);
}

WorkerTest::Worker HandoffTest::StartSource(const Arguments& arguments) {
  return StartPrefill(Arguments{"--bootstrap-ports", "0"} + arguments);
}

WorkerTest::Worker HandoffTest::StartDecode(const Arguments& arguments) {
  return Start(Arguments{"--disaggregation-mode", "decode"} + arguments);
}

std::uint16_t HandoffTest::BootstrapPort(const WorkerProcess& prefill) {
  const std::string log = prefill.err();
  const auto line = log.find("Bootstrap server started");
  const auto port = log.find("port=", line);
  if (line == std::string::npos || port == std::string::npos) {
    ADD_FAILURE() << "no bootstrap port in the log:\n" << log;
    return 0;
  }
  return static_cast<std::uint16_t>(std::stoul(log.substr(port + 5)));
}

Attempt HandoffTest::NewAttempt(std::uint16_t port, std::size_t prompt_tokens) {
  std::random_device device;
  const auto half = [&device] { return std::uint64_t{device()} << 32 | device(); };
  Attempt attempt;
  attempt.id = ToText(Uuid{half(), half()});
  attempt.info = {"127.0.0.1", port, half() >> 1, Uuid{half(), half()}};
  attempt.prompt = Prompt(prompt_tokens, static_cast<std::uint32_t>(++attempts_));
  return attempt;
}

CallSpec HandoffTest::SpecOf(const WorkerProcess& worker,
                             const Attempt& attempt,
                             std::uint32_t max_tokens) const {
  CallSpec spec = Spec(worker, 0, max_tokens);
  spec.id = attempt.id;
  spec.request.token_ids = attempt.prompt;
  spec.request.bootstrap_info = attempt.info;
  return spec;
}

std::string HandoffTest::WhyNotHandedOver(const WorkerProcess& prefill,
                                          const WorkerProcess& decode,
                                          std::uint32_t max_tokens) {
  const auto attempt = NewAttempt(BootstrapPort(prefill));
  const auto source = SendTo(prefill, attempt);
  if (!source->WaitFrame(Kind::kPrologue)) {
    return "no prologue of the prefill worker";
  }
  const auto destination = SendTo(decode, attempt, max_tokens);
  if (!destination->WaitClosed() || !source->WaitClosed()) {
    return "a stream does not end";
  }
  return source->WhyNotWhole(1) + source->error() + destination->WhyNotWhole(max_tokens) +
         destination->error();
}

void HandoffTest::ExpectIdle(const WorkerProcess& worker) {
  std::string last;
  EXPECT_TRUE(Eventually([&] {
    last = worker.DumpState();
    return IsIdle(nlohmann::json::parse(last, nullptr, false));
  })) << last;
  EXPECT_TRUE(worker.WaitMetric("understudy_handoffs_running", 0));
}

std::unique_ptr<BootstrapPeer> BootstrapPeer::Dial(std::uint16_t port,
                                                   const transport::BootstrapIdentity& identity) {
  auto peer = Peer::Dial("127.0.0.1:" + std::to_string(port));
  return peer ? std::make_unique<BootstrapPeer>(std::move(peer), identity) : nullptr;
}

void BootstrapPeer::SendHeader() {
  std::string header;
  transport::AppendBootstrapHeader(header);
  peer_->Send(header);
}

void BootstrapPeer::Send(const transport::BootstrapMessage& message) {
  std::string frame;
  ASSERT_TRUE(transport::AppendBootstrapFrame(frame, {identity_, message}));
  peer_->Send(frame);
}

void BootstrapPeer::Register() {
  SendHeader();
  Send(transport::BootstrapRegister{});
}

std::string BootstrapPeer::Take(std::size_t bytes) {
  if (read_.size() < bytes) {
    read_ += peer_->Read(bytes - read_.size());
  }
  std::string taken = read_.substr(0, bytes);
  read_.erase(0, taken.size());
  return taken;
}

bool BootstrapPeer::ReadHeader() {
  return transport::CheckBootstrapHeader(Take(transport::kBootstrapHeaderBytes)).has_value();
}

std::optional<transport::BootstrapMessage> BootstrapPeer::Receive() {
  const std::string head = Take(transport::kBootstrapLengthBytes);
  if (head.size() < transport::kBootstrapLengthBytes) {
    return std::nullopt;
  }
  std::size_t size = 0;
  for (std::size_t i = head.size(); i-- > 0;) {
    size = size << 8U | static_cast<unsigned char>(head[i]);
  }
  const auto frame = transport::DecodeBootstrapBody(Take(size));
  if (!frame) {
    ADD_FAILURE() << frame.error().message;
    return std::nullopt;
  }
  EXPECT_EQ(frame->identity, identity_);
  return frame->message;
}

std::string BootstrapPeer::ReceiveUntil(std::string_view beginning) {
  while (const auto message = Receive()) {
    const std::string text = DebugText(*message);
    if (text.starts_with(beginning)) {
      return text;
    }
  }
  return "closed";
}

}  // namespace understudy::worker
