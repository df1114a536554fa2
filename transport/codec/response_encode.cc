// Frames a worker sends. Source: wire.md 6.2 to 6.4; vectors/wire/response_*.json,
// control_frames.json, worker_errors.json. Bodies are put together from constant pieces, since one
// of them is written for every token.
#include "transport/codec/json_writer.h"
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "understudy/transport/codec.h"

#include <array>
#include <charconv>
#include <cstring>

namespace understudy::transport {
namespace {

using namespace std::string_view_literals;

/// Appends a frame whose body (or header) is written after its head; Finish puts the length in.
class OpenFrame {
 public:
  enum class Part : std::uint8_t { kHeader = 0, kBody = 8 };
  OpenFrame(std::string& out, Part part) : out_(out), part_(part), at_(out.size()) {
    out_.append(kTwoPartHeadBytes, '\0');
  }
  void Finish() {
    StoreU64(out_.data() + at_ + static_cast<std::size_t>(part_),
             out_.size() - at_ - kTwoPartHeadBytes);
  }

 private:
  std::string& out_;
  Part part_;
  std::size_t at_;
};

// {"data":{"data":{ ... }},"complete_final":false}, around the fields of the output
constexpr auto kJsonOpen = R"({"data":{"data":{"token_ids":[)"sv;
constexpr auto kJsonClose = R"(}},"complete_final":false})"sv;
constexpr auto kMsgpackOpen =
    "\x82\xa4"
    "data"
    "\x81\xa4"
    "data"sv;
constexpr auto kMsgpackTokenIds = "\xa9token_ids"sv;
constexpr auto kMsgpackClose =
    "\xae"
    "complete_final"
    "\xc2"sv;

void AppendUsage(std::string& out, PayloadCodec codec, const Usage& usage) {
  const std::uint64_t total = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  if (codec == PayloadCodec::kJson) {
    AppendDecimal(out += R"("completion_usage":{"prompt_tokens":)"sv, usage.prompt_tokens);
    AppendDecimal(out += R"(,"completion_tokens":)"sv, usage.completion_tokens);
    AppendDecimal(out += R"(,"total_tokens":)"sv, total);
    out += R"(,"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":)"sv;
    AppendDecimal(out, usage.cached_tokens);
    out += "}}"sv;
    return;
  }
  AppendMsgpackUint(out +=
                    "\xb0"
                    "completion_usage"
                    "\x84\xad"
                    "prompt_tokens"sv,
                    usage.prompt_tokens);
  AppendMsgpackUint(out +=
                    "\xb1"
                    "completion_tokens"sv,
                    usage.completion_tokens);
  AppendMsgpackUint(out +=
                    "\xac"
                    "total_tokens"sv,
                    total);
  out +=
      "\xb5"
      "prompt_tokens_details"
      "\x82\xac"
      "audio_tokens"
      "\xc0\xad"
      "cached_tokens"sv;
  AppendMsgpackUint(out, usage.cached_tokens);
}

/// One stack buffer, one append: this runs for every token of every stream.
class TokenFrame {
 public:
  void Put(std::string_view piece) {
    std::memcpy(bytes_.data() + used_, piece.data(), piece.size());
    used_ += piece.size();
  }
  void PutDecimal(std::uint32_t number) {
    char* const from = bytes_.data() + used_;
    used_ += static_cast<std::size_t>(std::to_chars(from, from + 10, number).ptr - from);
  }
  void PutMsgpack(std::uint32_t number) {
    used_ += StoreMsgpackUint(bytes_.data() + used_, number);
  }
  void AppendTo(std::string& out) {
    StoreU64(bytes_.data() + 8, used_ - kTwoPartHeadBytes);
    out.append(bytes_.data(), used_);
  }

 private:
  static constexpr std::size_t kRoom = 128;
  static_assert(kTwoPartHeadBytes + kJsonOpen.size() + 10 + 1 + kJsonClose.size() <= kRoom);
  static_assert(kTwoPartHeadBytes + kMsgpackOpen.size() + kMsgpackTokenIds.size() + 2 +
                    kMsgpackUintBytesMax + kMsgpackClose.size() <=
                kRoom);
  std::array<char, kRoom> bytes_{};
  std::size_t used_ = kTwoPartHeadBytes;
};

void OpenFinish(std::string& out, PayloadCodec codec, unsigned fields) {
  if (codec == PayloadCodec::kJson) {
    (out += kJsonOpen) += R"(],"finish_reason":)"sv;
    return;
  }
  out += kMsgpackOpen;
  out += static_cast<char>(0x80U | fields);
  ((out += kMsgpackTokenIds) += '\x90') +=
      "\xad"
      "finish_reason"sv;
}

void AppendText(std::string& out, PayloadCodec codec, std::string_view text) {
  if (codec == PayloadCodec::kJson) {
    AppendJsonString(out, text);
  } else {
    AppendMsgpackText(out, ToUtf8(text));
  }
}

void CloseItem(std::string& out, PayloadCodec codec) {
  out += codec == PayloadCodec::kJson ? kJsonClose : kMsgpackClose;
}

void AppendFirstToken(
    std::string& out, PayloadCodec codec, std::uint32_t token, const Usage& usage, bool prefill) {
  OpenFrame frame(out, OpenFrame::Part::kBody);
  if (codec == PayloadCodec::kJson) {
    AppendDecimal(out += kJsonOpen, token);
    out += prefill ? R"(],"disaggregated_params":"dummy",)"sv : "],"sv;
  } else {
    (out += kMsgpackOpen) += prefill ? '\x83' : '\x82';
    (out += kMsgpackTokenIds) += '\x91';
    AppendMsgpackUint(out, token);
    out += prefill ? "\xb4"
                     "disaggregated_params"
                     "\xa5"
                     "dummy"sv
                   : ""sv;
  }
  AppendUsage(out, codec, usage);
  CloseItem(out, codec);
  frame.Finish();
}

}  // namespace

void AppendHandshake(std::string& out, std::string_view subject) {
  OpenFrame frame(out, OpenFrame::Part::kHeader);
  AppendJsonString(out += R"({"subject":)"sv, subject);
  out += R"(,"stream_type":"response"})"sv;
  frame.Finish();
}

void AppendPrologue(std::string& out) {
  AppendTwoPart(out, R"({"error":null})", {});
}

void AppendErrorPrologue(std::string& out, std::string_view text) {
  OpenFrame frame(out, OpenFrame::Part::kHeader);
  AppendJsonString(out += R"({"error":)"sv, text);
  out += '}';
  frame.Finish();
}

void AppendSentinel(std::string& out) {
  AppendTwoPart(out, R"("sentinel")", {});
}

void AppendToken(std::string& out, PayloadCodec codec, std::uint32_t token) {
  TokenFrame frame;
  if (codec == PayloadCodec::kJson) {
    frame.Put(kJsonOpen);
    frame.PutDecimal(token);
    frame.Put("]");
    frame.Put(kJsonClose);
  } else {
    frame.Put(kMsgpackOpen);
    frame.Put("\x81");
    frame.Put(kMsgpackTokenIds);
    frame.Put("\x91");
    frame.PutMsgpack(token);
    frame.Put(kMsgpackClose);
  }
  frame.AppendTo(out);
}

void AppendToken(std::string& out, PayloadCodec codec, std::uint32_t token, const Usage& usage) {
  AppendFirstToken(out, codec, token, usage, false);
}

void AppendPrefillToken(std::string& out,
                        PayloadCodec codec,
                        std::uint32_t token,
                        const Usage& usage) {
  AppendFirstToken(out, codec, token, usage, true);
}

void AppendFinish(std::string& out,
                  PayloadCodec codec,
                  std::string_view finish_reason,
                  const Usage* usage) {
  OpenFrame frame(out, OpenFrame::Part::kBody);
  OpenFinish(out, codec, usage != nullptr ? 3 : 2);
  AppendText(out, codec, finish_reason);
  if (usage != nullptr) {
    out += codec == PayloadCodec::kJson ? ","sv : ""sv;
    AppendUsage(out, codec, *usage);
  }
  CloseItem(out, codec);
  frame.Finish();
}

void AppendFinishError(std::string& out, PayloadCodec codec, std::string_view text) {
  OpenFrame frame(out, OpenFrame::Part::kBody);
  OpenFinish(out, codec, 2);
  if (codec == PayloadCodec::kJson) {
    AppendJsonString(out += R"({"error":)"sv, text);
    out += '}';
  } else {
    AppendMsgpackText(out +=
                      "\x81\xa5"
                      "error"sv,
                      ToUtf8(text));
  }
  CloseItem(out, codec);
  frame.Finish();
}

void AppendErrorItem(std::string& out,
                     PayloadCodec codec,
                     std::string_view error_type,
                     std::string_view text) {
  OpenFrame frame(out, OpenFrame::Part::kBody);
  if (codec == PayloadCodec::kJson) {
    AppendJsonString(out += R"({"data":{"event":"error","error":{"error_type":)"sv, error_type);
    AppendJsonString(out += R"(,"message":)"sv, text);
  } else {
    out +=
        "\x82\xa4"
        "data"
        "\x82\xa5"
        "event"
        "\xa5"
        "error"
        "\xa5"
        "error"
        "\x82\xaa"
        "error_type"sv;
    AppendMsgpackText(out, ToUtf8(error_type));
    AppendMsgpackText(out +=
                      "\xa7"
                      "message"sv,
                      ToUtf8(text));
  }
  CloseItem(out, codec);
  frame.Finish();
}

void AppendCompleteFinal(std::string& out, PayloadCodec codec) {
  AppendTwoPart(out,
                {},
                codec == PayloadCodec::kJson ? R"({"complete_final":true})"sv
                                             : "\x81\xae"
                                               "complete_final"
                                               "\xc3"sv);
}

}  // namespace understudy::transport
