// What a client reads from a response stream: our own frames and those of the real workers of both
// releases. Source: wire.md 6.2 to 6.4; vectors/wire/response_*.json, worker_errors.json.
#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/msgpack_value.h"
#include "transport/codec/whole_body.h"
#include "understudy/transport/codec.h"

namespace understudy::transport {
namespace {

const auto kAnyCount = [](std::uint64_t) { return true; };

template <class V>
bool ReadTokenIds(V&& value, ResponseFrame& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto item = [&](auto&& token) {
    return ReadU32(token, "token_ids", out.token_ids.emplace_back(), problem);
  };
  return value.Items(kAnyCount, item) || problem.Malformed("token_ids", "not an array");
}

template <class V>
bool ReadFinishReason(V&& value, ResponseFrame& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  std::string_view word;
  if (value.Text(word)) {
    out.finish_reason = word;
    return true;
  }
  out.finish_reason = "error";
  const auto field = [&](std::string_view key, auto&& item) {
    return key == "error" ? ReadText(item, "finish_reason.error", out.error, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("finish_reason", "not a word or an object");
}

template <class V>
bool ReadCachedTokens(V&& value, Usage& usage, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto field = [&](std::string_view key, auto&& item) {
    if (key != "cached_tokens") {
      return item.Skip();
    }
    return item.TakeNull() || ReadU32(item, "cached_tokens", usage.cached_tokens, problem);
  };
  return value.Fields(field) || problem.Malformed("prompt_tokens_details", "not an object");
}

template <class V>
bool ReadUsage(V&& value, ResponseFrame& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  Usage& usage = out.usage.emplace();
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "prompt_tokens") {
      return ReadU32(item, key, usage.prompt_tokens, problem);
    }
    if (key == "completion_tokens") {
      return ReadU32(item, key, usage.completion_tokens, problem);
    }
    return key == "prompt_tokens_details" ? ReadCachedTokens(item, usage, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("completion_usage", "not an object");
}

template <class V>
bool ReadOutput(V&& value, ResponseFrame& out, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "token_ids") {
      return ReadTokenIds(item, out, problem);
    }
    if (key == "finish_reason") {
      return ReadFinishReason(item, out, problem);
    }
    if (key == "disaggregated_params") {
      out.disaggregated_params = !item.TakeNull();
      return !out.disaggregated_params || item.Skip();
    }
    return key == "completion_usage" ? ReadUsage(item, out, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("data", "not an object");
}

/// A DynamoError: only its message is of interest.
template <class V>
bool ReadDynamoError(V&& value, std::string& message, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto field = [&](std::string_view key, auto&& item) {
    return key == "message" ? ReadText(item, "error.message", message, problem) : item.Skip();
  };
  return value.Fields(field) || problem.Malformed("error", "not an object");
}

template <class V>
bool ReadComments(V&& value, std::string& joined, Problem& problem) {
  if (value.TakeNull()) {
    return true;
  }
  const auto item = [&](auto&& text) {
    std::string_view comment;
    if (!text.Text(comment)) {
      return false;
    }
    (joined += joined.empty() ? "" : ", ") += comment;
    return true;
  };
  return value.Items(kAnyCount, item) || problem.Malformed("comment", "not an array of strings");
}

/// Annotated: {"data"?, "id"?, "event"?, "comment"?, "error"?}
template <class V>
bool ReadAnnotated(V&& value, ResponseFrame& out, Problem& problem) {
  std::optional<std::string> event;
  std::string message;
  std::string comments;
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "data") {
      return ReadOutput(item, out, problem);
    }
    if (key == "event") {
      return ReadOptionalText(item, "event", event, problem);
    }
    if (key == "comment") {
      return ReadComments(item, comments, problem);
    }
    return key == "error" ? ReadDynamoError(item, message, problem) : item.Skip();
  };
  if (!value.Fields(field)) {
    return problem.Malformed("data", "not an object");
  }
  if (event == "error" || !message.empty()) {
    out.kind = ResponseFrame::Kind::kErrorItem;
    out.error = message.empty() ? comments : message;
  }
  return true;
}

template <class V>
bool ReadWrapper(V&& value, ResponseFrame& out, Problem& problem) {
  bool has_data = false;
  bool complete_final = false;
  SeenKeys seen;
  const auto field = [&](std::string_view key, auto&& item) {
    if (key == "data") {
      if (!seen.First(0, key, problem)) {
        return false;
      }
      if (item.TakeNull()) {
        return true;
      }
      has_data = true;
      return ReadAnnotated(item, out, problem);
    }
    if (key == "complete_final") {
      return seen.First(1, key, problem) && ReadBool(item, key, complete_final, problem);
    }
    return item.Skip();
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  if (has_data == complete_final) {
    return problem.Malformed("complete_final", "needs either data or true");
  }
  if (complete_final) {
    out.kind = ResponseFrame::Kind::kCompleteFinal;
  }
  return true;
}

bool ReadHeader(JsonValue value, ResponseFrame& out, Problem& problem) {
  std::string_view word;
  if (value.Text(word)) {
    out.kind = ResponseFrame::Kind::kSentinel;
    return word == "sentinel" || problem.Malformed("", "unknown word");
  }
  SeenKeys seen;
  const auto field = [&](std::string_view key, JsonValue item) {
    if (key == "subject") {
      return seen.First(0, key, problem) && ReadText(item, key, out.subject, problem);
    }
    if (key == "error") {
      out.kind =
          item.TakeNull() ? ResponseFrame::Kind::kPrologue : ResponseFrame::Kind::kErrorPrologue;
      return seen.First(1, key, problem) &&
             (item.TakeNull() || ReadText(item, key, out.error, problem));
    }
    return true;
  };
  if (!value.Fields(field)) {
    return problem.Malformed("", "not an object");
  }
  if (seen.Has(0) == seen.Has(1)) {
    return problem.Malformed("", "neither a handshake nor a prologue");
  }
  if (seen.Has(0)) {
    out.kind = ResponseFrame::Kind::kHandshake;
  }
  return true;
}

}  // namespace

Result<ResponseFrame> DecodeResponseFrame(PayloadCodec codec, const TwoPartView& frame) {
  constexpr const char* kWhat = "response frame";
  if (frame.header.empty() == frame.body.empty()) {
    return Fail(Errc::kMalformed, "response frame: needs either a header or a body");
  }
  constexpr std::size_t kNestingMax = DecodeLimits{}.nesting_max;
  ResponseFrame out;
  out.body = frame.body;
  if (!frame.header.empty()) {
    auto header = ParseJson(frame.header, kNestingMax);
    Problem problem;
    if (!header) {
      return FailWith(kWhat, std::move(header).error());
    }
    if (!ReadHeader(*header, out, problem)) {
      return FailWith(kWhat, problem.Take());
    }
    return out;
  }
  UNDERSTUDY_TRY_STATUS(ReadWholeBody(
      codec,
      kWhat,
      frame.body,
      [&](auto& value, Problem& problem) { return ReadWrapper(value, out, problem); },
      kNestingMax));
  return out;
}

}  // namespace understudy::transport
