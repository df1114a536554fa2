#include "tests/bench/loadgen/encode.h"

#include <array>
#include <cstdio>
#include <random>
#include <span>

namespace understudy::loadgen {
namespace {

/// Writes one document as JSON or msgpack, piece by piece. Texts hold neither quotes nor control
/// bytes.
class Encoder {
 public:
  explicit Encoder(Codec codec) : msgpack_(codec == Codec::kMsgpack) {}

  void Map(std::size_t size) { Open(size, '{', 0x80, 0xde); }
  void Array(std::size_t size) { Open(size, '[', 0x90, 0xdc); }
  void EndMap() { Close('}'); }
  void EndArray() { Close(']'); }

  void Key(std::string_view name) {
    Text(name);
    if (!msgpack_) {
      out_ += ':';
      after_key_ = true;
    }
  }

  void Text(std::string_view text) {
    Separate();
    if (!msgpack_) {
      out_.append("\"").append(text).append("\"");
      return;
    }
    if (text.size() < 32) {
      Byte(0xa0U | static_cast<unsigned>(text.size()));
    } else if (text.size() < 256) {
      Byte(0xd9);
      PutBigEndian(out_, text.size(), 1);
    } else {
      Byte(0xda);
      PutBigEndian(out_, text.size(), 2);
    }
    out_ += text;
  }

  void Number(std::uint64_t value) {
    Separate();
    if (!msgpack_) {
      out_ += std::to_string(value);
    } else if (value < 128) {
      Byte(static_cast<unsigned>(value));
    } else if (value < 65536) {
      Byte(0xcd);
      PutBigEndian(out_, value, 2);
    } else {
      Byte(0xce);
      PutBigEndian(out_, value, 4);
    }
  }

  void Null() {
    Separate();
    if (msgpack_) {
      Byte(0xc0);
    } else {
      out_ += "null";
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void Byte(unsigned value) { out_ += static_cast<char>(value); }

  void Separate() {
    if (!msgpack_ && !after_key_ && !out_.empty() && out_.back() != '{' && out_.back() != '[') {
      out_ += ',';
    }
    after_key_ = false;
  }

  void Open(std::size_t size, char json, unsigned small, unsigned large) {
    Separate();
    if (!msgpack_) {
      out_ += json;
    } else if (size < 16) {
      Byte(small | static_cast<unsigned>(size));
    } else if (size < 65536) {
      Byte(large);
      PutBigEndian(out_, size, 2);
    } else {
      Byte(large + 1);
      PutBigEndian(out_, size, 4);
    }
  }

  void Close(char json) {
    if (!msgpack_) {
      out_ += json;
    }
  }

  bool msgpack_;
  bool after_key_ = false;
  std::string out_;
};

void NullKeys(Encoder& encoder, std::span<const char* const> names) {
  for (const char* name : names) {
    encoder.Key(name);
    encoder.Null();
  }
}

constexpr std::array kStopNulls = {"stop",
                                   "stop_token_ids",
                                   "stop_token_ids_visible",
                                   "min_tokens",
                                   "ignore_eos",
                                   "max_thinking_tokens"};
constexpr std::array kSamplingNulls = {"n",
                                       "best_of",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "repetition_penalty",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "use_beam_search",
                                       "length_penalty",
                                       "seed",
                                       "include_stop_str_in_output",
                                       "guided_decoding"};
constexpr std::array kOutputNulls = {"logprobs",
                                     "prompt_logprobs",
                                     "skip_special_tokens",
                                     "formatted_prompt",
                                     "return_tokens_as_token_ids"};

void Conditions(Encoder& encoder, std::uint64_t max_tokens) {
  encoder.Key("stop_conditions");
  encoder.Map(kStopNulls.size() + 1);
  encoder.Key("max_tokens");
  encoder.Number(max_tokens);
  NullKeys(encoder, kStopNulls);
  encoder.EndMap();
  encoder.Key("sampling_options");
  encoder.Map(kSamplingNulls.size());
  NullKeys(encoder, kSamplingNulls);
  encoder.EndMap();
  encoder.Key("output_options");
  encoder.Map(kOutputNulls.size());
  NullKeys(encoder, kOutputNulls);
  encoder.EndMap();
}

}  // namespace

std::string EncodeBody(const Options& options, const std::vector<std::uint32_t>& token_ids) {
  Encoder encoder(options.codec);
  encoder.Map(options.with_rank ? 10 : 9);
  encoder.Key("model");
  encoder.Text(options.model);
  encoder.Key("token_ids");
  encoder.Array(token_ids.size());
  for (const std::uint32_t id : token_ids) {
    encoder.Number(id);
  }
  encoder.EndArray();
  Conditions(encoder, options.output_tokens);
  encoder.Key("eos_token_ids");
  encoder.Array(1);
  encoder.Number(2);
  encoder.EndArray();
  encoder.Key("mdc_sum");
  encoder.Null();
  encoder.Key("annotations");
  encoder.Array(0);
  encoder.EndArray();
  if (options.with_rank) {
    encoder.Key("routing");
    encoder.Map(1);
    encoder.Key("dp_rank");
    encoder.Number(0);
    encoder.EndMap();
  }
  encoder.Key("router_config_override");
  encoder.Null();
  encoder.EndMap();
  return encoder.Take();
}

std::string EncodeControl(const Options& options,
                          std::string_view listen_address,
                          std::string_view request_id,
                          std::string_view subject) {
  std::string text = R"({"id":")";
  text.append(request_id).append(R"(","request_type":"single_in","response_type":"many_out",)");
  text.append(R"("payload_codec":")").append(options.codec == Codec::kJson ? "json" : "msgpack");
  text.append(R"(","connection_info":{"transport":"tcp_server","info":"{\"address\":\")");
  text.append(listen_address).append(R"(\",\"subject\":\")").append(subject);
  text.append(R"(\",\"context\":\")").append(request_id);
  text.append(R"(\",\"stream_type\":\"response\"}"}})");
  return text;
}

void PutBigEndian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) {
    out += static_cast<char>(value >> (8 * i));
  }
}

std::uint64_t GetBigEndian(const char* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

std::string TwoPart(std::string_view header, std::string_view body) {
  std::string out;
  out.reserve(24 + header.size() + body.size());
  PutBigEndian(out, header.size(), 8);
  PutBigEndian(out, body.size(), 8);
  PutBigEndian(out, 0, 8);
  return out.append(header).append(body);
}

std::string RandomUuid() {
  static std::mt19937_64 random{std::random_device{}()};
  const std::uint64_t a = random();
  const std::uint64_t b = random();
  std::array<char, 40> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08x-%04x-4%03x-%04x-%012llx",
                static_cast<unsigned>(a >> 32),
                static_cast<unsigned>(a >> 16) & 0xffffU,
                static_cast<unsigned>(a) & 0xfffU,
                (static_cast<unsigned>(b >> 48) & 0x3fffU) | 0x8000U,
                static_cast<unsigned long long>(b & 0xffffffffffffULL));
  return text.data();
}

std::uint64_t CountTokens(Codec codec, std::string_view payload) {
  if (codec == Codec::kMsgpack) {
    const std::size_t key = payload.find("\xa9token_ids");
    if (key == std::string_view::npos || key + 10 >= payload.size()) {
      return 0;
    }
    const auto head = static_cast<unsigned char>(payload[key + 10]);
    if ((head & 0xf0U) == 0x90U) {
      return head & 0x0fU;
    }
    return head == 0xdc && key + 12 < payload.size() ? GetBigEndian(payload.data() + key + 11, 2)
                                                     : 0;
  }
  constexpr std::string_view kKey = R"("token_ids":[)";
  std::size_t at = payload.find(kKey);
  if (at == std::string_view::npos || at + kKey.size() >= payload.size() ||
      payload[at + kKey.size()] == ']') {
    return 0;
  }
  std::uint64_t count = 1;
  for (at += kKey.size(); at < payload.size() && payload[at] != ']'; ++at) {
    count += payload[at] == ',' ? 1U : 0U;
  }
  return count;
}

bool IsFinal(Codec codec, std::string_view payload) {
  constexpr std::size_t kTail = 200;
  if (payload.size() > kTail) {
    payload.remove_prefix(payload.size() - kTail);
  }
  const std::string_view mark = codec == Codec::kMsgpack
                                    ? std::string_view(
                                          "\xae"
                                          "complete_final\xc3")
                                    : std::string_view(R"("complete_final":true)");
  return payload.find(mark) != std::string_view::npos;
}

}  // namespace understudy::loadgen
