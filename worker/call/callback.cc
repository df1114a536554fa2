#include "worker/call/callback.h"

namespace understudy::worker {

std::string CallbackRequest(const Callback& callback,
                            transport::PayloadCodec codec,
                            std::string_view body) {
  transport::RequestControl control;
  control.id = control.context = callback.request_id;
  control.codec = codec;
  control.response_type = "many_out";
  control.transport = "tcp_server";
  control.address = callback.address;
  control.subject = callback.subject;
  control.stream_type = "response";
  std::string frame;
  transport::AppendTwoPart(frame, transport::EncodeRequestControl(control), body);
  return frame;
}

std::optional<std::string> NobodyListens(const transport::NatsMessage& acknowledgement,
                                         const std::string& subject) {
  const auto status = acknowledgement.header("Status");
  if (!status || !status->starts_with("503")) {
    return std::nullopt;
  }
  return "nobody listens on " + subject + " (a dead worker whose record is still there?)";
}

}  // namespace understudy::worker
