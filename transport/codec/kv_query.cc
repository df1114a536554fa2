// Source: events.md 4.3; vectors/events/local_indexer_query_*.json, query_wire_*.json.
#include "understudy/transport/kv_query.h"

#include "transport/codec/field_readers.h"
#include "transport/codec/json_value.h"
#include "transport/codec/json_writer.h"
#include "transport/codec/msgpack_value.h"
#include "transport/codec/msgpack_writer.h"
#include "transport/codec/utf8.h"
#include "transport/codec/whole_body.h"

#include <initializer_list>
#include <utility>

namespace understudy::transport {
namespace {

using namespace std::string_view_literals;

constexpr const char* kWhat = "KV query";
constexpr std::size_t kBodyBytesAt = 8;  // in the head of a frame

constexpr std::string_view kFieldNames[] = {
    "worker_id", "dp_rank", "start_event_id", "end_event_id", "supports_tree_dump_failed", "kind"};
constexpr unsigned kFieldCount = std::size(kFieldNames);

template <class V>
bool ReadKind(V&& value, Problem& problem) {
  std::string_view kind;
  if (!value.Text(kind)) {
    return problem.Malformed("kind", "not a string");
  }
  return kind == "recovery" ||
         problem.Malformed("kind", "'" + std::string(kind) + "' is not known (allowed: recovery)");
}

template <class V>
bool ReadField(unsigned field, V&& value, KvQuery& out, Problem& problem) {
  const std::string_view name = kFieldNames[field];
  switch (field) {
    case 0:
      return ReadU64(value, name, out.worker_id, problem);
    case 1:
      return ReadU32(value, name, out.dp_rank, problem);
    case 2:
      return ReadOptionalU64(value, name, out.start_event_id, problem);
    case 3:
      return ReadOptionalU64(value, name, out.end_event_id, problem);
    case 4:
      return ReadBool(value, name, out.supports_tree_dump_failed, problem);
    default:
      return ReadKind(value, problem);
  }
}

template <class V>
bool ReadQuery(V&& value, KvQuery& out, Problem& problem) {
  SeenKeys seen;
  unsigned count = 0;
  const auto member = [&](std::string_view key, auto&& item) {
    for (unsigned field = 0; field < kFieldCount; ++field) {
      if (kFieldNames[field] == key) {
        return seen.First(field, key, problem) && ReadField(field, item, out, problem);
      }
    }
    return item.Skip();
  };
  const auto item = [&](auto&& one) {
    const unsigned field = count++;
    return field < kFieldCount ? seen.First(field, kFieldNames[field], problem) &&
                                     ReadField(field, one, out, problem)
                               : one.Skip();
  };
  if (!value.Fields(member) && !value.Items([](std::uint64_t) { return true; }, item)) {
    return problem.Malformed("", "not an object");
  }
  for (const unsigned field : {0U, 1U}) {
    if (!seen.Has(field)) {
      return problem.Malformed(kFieldNames[field], "missing");
    }
  }
  return true;
}

/// The pieces of an answer, in either codec.
class AnswerText {
 public:
  AnswerText(std::string& out, PayloadCodec codec)
      : out_(out), json_(codec == PayloadCodec::kJson) {}

  void Open(std::string_view variant) {  // {"data":{<variant>:
    if (json_) {
      ((out_ += R"({"data":{")"sv) += variant) += R"(":)"sv;
    } else {
      out_ +=
          "\x82\xa4"
          "data\x81"sv;
      AppendMsgpackText(out_, variant);
    }
  }
  void Close() {
    out_ += json_ ? R"(},"complete_final":false})"sv
                  : "\xae"
                    "complete_final\xc2"sv;
  }
  void OpenMap(std::uint64_t size) {
    if (json_) {
      out_ += '{';
    } else {
      AppendMsgpackMap(out_, size);
    }
  }
  void CloseMap() { out_ += json_ ? "}"sv : ""sv; }
  void OpenArray(std::uint64_t size) {
    if (json_) {
      out_ += '[';
    } else {
      AppendMsgpackArray(out_, size);
    }
  }
  void CloseArray() { out_ += json_ ? "]"sv : ""sv; }
  void Key(std::string_view key, bool first = false) {
    if (json_) {
      ((out_ += first ? "\""sv : ",\""sv) += key) += "\":"sv;
    } else {
      AppendMsgpackText(out_, key);
    }
  }
  void Uint(std::uint64_t number) {
    if (json_) {
      AppendDecimal(out_, number);
    } else {
      AppendMsgpackUint(out_, number);
    }
  }
  void Text(std::string_view text) {
    if (json_) {
      AppendJsonString(out_, text);
    } else {
      AppendMsgpackText(out_, ToUtf8(text));
    }
  }

 private:
  std::string& out_;
  bool json_;
};

/// Appends a data frame whose body `write` writes.
template <class Write>
void AppendAnswer(std::string& out, PayloadCodec codec, std::string_view variant, Write write) {
  const std::size_t at = out.size();
  out.append(kTwoPartHeadBytes, '\0');
  AnswerText text(out, codec);
  text.Open(variant);
  write(text);
  text.Close();
  StoreU64(out.data() + at + kBodyBytesAt, out.size() - at - kTwoPartHeadBytes);
}

void WriteNumbers(AnswerText& text,
                  std::initializer_list<std::pair<std::string_view, std::uint64_t>> fields) {
  bool first = true;
  text.OpenMap(fields.size());
  for (const auto& [key, number] : fields) {
    text.Key(key, std::exchange(first, false));
    text.Uint(number);
  }
  text.CloseMap();
}

}  // namespace

Result<KvQuery> DecodeKvQuery(PayloadCodec codec, std::string_view body) {
  KvQuery query;
  UNDERSTUDY_TRY_STATUS(ReadWholeBody(codec, kWhat, body, [&](auto& value, Problem& problem) {
    return ReadQuery(value, query, problem);
  }));
  return query;
}

std::string EncodeKvQuery(PayloadCodec codec, const KvQuery& query, bool as_16) {
  std::string out;
  AnswerText text(out, codec);
  const bool json = codec == PayloadCodec::kJson;
  const auto optional = [&](std::string_view key, const std::optional<std::uint64_t>& number) {
    text.Key(key, out.size() <= 1);
    if (number) {
      text.Uint(*number);
    } else {
      out += json ? "null"sv : "\xc0"sv;
    }
  };
  text.OpenMap(as_16 ? 6 : 4);
  optional("worker_id", query.worker_id);
  optional("dp_rank", query.dp_rank);
  optional("start_event_id", query.start_event_id);
  optional("end_event_id", query.end_event_id);
  if (as_16) {
    text.Key("supports_tree_dump_failed");
    const bool yes = query.supports_tree_dump_failed;
    out += json ? (yes ? "true"sv : "false"sv) : (yes ? "\xc3"sv : "\xc2"sv);
    text.Key("kind");
    text.Text("recovery");
  }
  text.CloseMap();
  return out;
}

void KvAnswerWriter::Add(const RouterEvent& event) {
  if (pieces_.empty() || pieces_.back().size() >= kPieceBytes) {
    pieces_.emplace_back().reserve(kPieceBytes + kPieceBytes / 4);
  }
  std::string& piece = pieces_.back();
  const std::size_t before = piece.size();
  if (codec_ == PayloadCodec::kJson) {
    piece += count_ == 0 ? ""sv : ","sv;
    AppendRouterEventJson(piece, event, form_.events);
  } else {
    AppendRouterEvent(piece, event, form_.events);
  }
  ++count_;
  bytes_ += piece.size() - before;
}

std::vector<std::string> KvAnswerWriter::TakeEvents(std::uint64_t last_event_id) {
  return Take("Events", false, last_event_id);
}

std::vector<std::string> KvAnswerWriter::TakeTreeDump(std::uint64_t last_event_id) {
  return Take("TreeDump", form_.has_reset_scope, last_event_id);
}

std::vector<std::string> KvAnswerWriter::Take(std::string_view variant,
                                              bool reset_scope,
                                              std::uint64_t last_event_id) {
  std::string head(kTwoPartHeadBytes, '\0');
  AnswerText before(head, codec_);
  before.Open(variant);
  before.OpenMap(reset_scope ? 3 : 2);
  before.Key("events", true);
  before.OpenArray(count_);
  std::string tail;
  AnswerText after(tail, codec_);
  after.CloseArray();
  after.Key("last_event_id");
  after.Uint(last_event_id);
  if (reset_scope) {
    after.Key("reset_scope");
    after.Text("all");
  }
  after.CloseMap();
  after.Close();
  StoreU64(head.data() + kBodyBytesAt, head.size() - kTwoPartHeadBytes + bytes_ + tail.size());
  std::vector<std::string> pieces = std::exchange(pieces_, {});
  pieces.insert(pieces.begin(), std::move(head));
  pieces.push_back(std::move(tail));
  count_ = bytes_ = 0;
  return pieces;
}

void AppendKvTooNew(std::string& out,
                    PayloadCodec codec,
                    std::uint64_t requested_start,
                    std::uint64_t requested_end,
                    std::uint64_t newest_available) {
  AppendAnswer(out, codec, "TooNew", [&](AnswerText& text) {
    WriteNumbers(text,
                 {{"requested_start", requested_start},
                  {"requested_end", requested_end},
                  {"newest_available", newest_available}});
  });
}

void AppendKvInvalidRange(std::string& out,
                          PayloadCodec codec,
                          std::uint64_t start_id,
                          std::uint64_t end_id) {
  AppendAnswer(out, codec, "InvalidRange", [&](AnswerText& text) {
    WriteNumbers(text, {{"start_id", start_id}, {"end_id", end_id}});
  });
}

void AppendKvError(std::string& out, PayloadCodec codec, std::string_view text) {
  AppendAnswer(out, codec, "Error", [&](AnswerText& answer) { answer.Text(text); });
}

void AppendKvTreeDumpFailed(std::string& out,
                            PayloadCodec codec,
                            std::uint64_t last_event_id,
                            std::string_view message) {
  AppendAnswer(out, codec, "TreeDumpFailed", [&](AnswerText& text) {
    text.OpenMap(2);
    text.Key("last_event_id", true);
    text.Uint(last_event_id);
    text.Key("message");
    text.Text(message);
    text.CloseMap();
  });
}

}  // namespace understudy::transport
