// Source: wire.md 6.5, vectors/wire/control_frames.json.
#include "transport/codec/json_value.h"
#include "understudy/transport/codec.h"

#include <string>

namespace understudy::transport {
namespace {

std::string_view WordOf(StreamControl control) {
  switch (control) {
    case StreamControl::kStop:
      return R"("stop")";
    case StreamControl::kKill:
      return R"("kill")";
    case StreamControl::kSentinel:
      return R"("sentinel")";
  }
  return {};
}

}  // namespace

Result<StreamControl> ParseStreamControl(const TwoPartView& frame) {
  if (!frame.body.empty()) {
    return Fail(
        Errc::kMalformed,
        "stream control: frame with a body of " + std::to_string(frame.body.size()) + " bytes");
  }
  UNDERSTUDY_TRY(const JsonValue value, ParseJson(frame.header, 1));
  std::string_view word;
  if (!value.Text(word)) {
    return Fail(Errc::kMalformed, "stream control: not a word");
  }
  if (word == "kill") {
    return StreamControl::kKill;
  }
  if (word == "stop") {
    return StreamControl::kStop;
  }
  if (word == "sentinel") {
    return StreamControl::kSentinel;
  }
  return Fail(Errc::kMalformed,
              "stream control: unknown word '" + std::string(word.substr(0, 64)) + "'");
}

void AppendStreamControl(std::string& out, StreamControl control) {
  AppendTwoPart(out, WordOf(control), {});
}

}  // namespace understudy::transport
