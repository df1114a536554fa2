#include "tests/fuzz/fuzz.h"
#include "understudy/transport/worker_control.h"

#include <string>

using namespace understudy;

namespace {

void CheckCommand(transport::PayloadCodec codec, std::string_view bytes) {
  transport::DecodeLimits limits;
  limits.prompt_tokens_max = 64;
  const auto command = transport::DecodeControlCommand(codec, bytes, limits);
  if (!command) {
    UNDERSTUDY_ASSERT(!command.error().message.empty());
    return;
  }
  UNDERSTUDY_ASSERT(command->token_ids.size() <= limits.prompt_tokens_max);
  const auto again = transport::DecodeControlCommand(
      codec, transport::EncodeControlCommand(codec, *command), limits);
  UNDERSTUDY_ASSERT(again.has_value() && *again == *command);
}

void CheckItem(transport::PayloadCodec codec, std::string_view bytes) {
  if (const auto item = transport::DecodeControlItem(codec, bytes)) {
    std::string frame;
    transport::AppendControlItem(frame, codec, *item);
    const auto body = std::string_view(frame).substr(transport::kTwoPartHeadBytes);
    UNDERSTUDY_ASSERT(transport::DecodeControlItem(codec, body).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  for (const auto codec : {transport::PayloadCodec::kJson, transport::PayloadCodec::kMsgpack}) {
    CheckCommand(codec, bytes);
    CheckItem(codec, bytes);
  }
  return 0;
}
