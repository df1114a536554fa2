#include "tests/unit/worker/handoff/golden_exchange.h"

#include "tests/unit/transport/codec/golden.h"

#include <stdexcept>
#include <utility>

namespace understudy::worker::golden {
namespace {

using transport::BootstrapFact;
using transport::BootstrapFrame;

BootstrapFrame FrameOf(std::string_view bytes) {
  const auto body = transport::SplitBootstrapFrame(bytes);
  if (!body || body->frame_bytes != bytes.size()) {
    throw std::runtime_error("not a frame: " + std::string(bytes));
  }
  auto frame = transport::DecodeBootstrapBody(body->json);
  if (!frame) {
    throw std::runtime_error(frame.error().message + ": " + std::string(body->json));
  }
  return std::move(*frame);
}

}  // namespace

const BootstrapFact* Exchange::FactOf(BootstrapFact::Kind kind) const {
  for (const Step& step : steps) {
    const auto* fact = std::get_if<BootstrapFact>(&step.message);
    if (!step.end && fact != nullptr && fact->kind == kind) {
      return fact;
    }
  }
  return nullptr;
}

Exchange LoadExchange(const std::string& name) {
  const Json vector = transport::golden::Load("disagg/" + name + ".json");
  Exchange exchange;
  for (const Json& item : vector.at("bootstrap_connections").at(0)) {
    if (item.contains("header_hex")) {
      exchange.opening = transport::golden::FromHex(item.at("header_hex"));
      continue;
    }
    Step step;
    step.t_ms = item.at("t_ms");
    step.from_decode = item.at("dir") == "c2s";
    step.end = !item.contains("body_text");
    if (!step.end) {
      step.bytes = transport::golden::FromHex(item.at("len_le_hex")) +
                   item.at("body_text").get<std::string>();
      BootstrapFrame frame = FrameOf(step.bytes);
      if (const auto* registration = std::get_if<transport::BootstrapRegister>(&frame.message)) {
        exchange.identity = frame.identity;
        exchange.registration = *registration;
        exchange.opening += step.bytes;
        continue;
      }
      step.message = std::move(frame.message);
    }
    exchange.steps.push_back(std::move(step));
  }
  exchange.prefill_told = EndingOf(vector.at("response_plane").at(0));
  exchange.decode_told = EndingOf(vector.at("response_plane").at(1));
  return exchange;
}

std::string EndingOf(const Json& frames) {
  for (const Json& frame : frames) {
    const std::string body = frame.value("body_text", frame.value("body", ""));
    if (body.empty()) {
      continue;
    }
    const Json json = Json::parse(body);
    const auto reason = Json::json_pointer("/data/data/finish_reason");
    if (!json.contains(reason) || json[reason].is_null()) {
      continue;
    }
    return json[reason].is_object() ? json[reason].at("error").get<std::string>() : "";
  }
  return "cut off";
}

transport::BootstrapMessage MessageOf(const Json& json) {
  const std::string body =
      R"({"identity":{"handoff_id":"00000000-0000-0000-0000-000000000001","bootstrap_room":1,)"
      R"("request_id":"00000000-0000-0000-0000-000000000002"},"message":)" +
      json.dump() + "}";
  auto frame = transport::DecodeBootstrapBody(body);
  if (!frame) {
    throw std::runtime_error(frame.error().message + ": " + body);
  }
  return std::move(frame->message);
}

}  // namespace understudy::worker::golden
