// Bytes <-> structs of the request and response planes. Pure, any thread.
#pragma once

#include "understudy/base/result.h"
#include "understudy/base/uuid.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::transport {

/// Limits of what a peer may send; each has an option of the same name.
struct DecodeLimits {
  std::size_t body_bytes_max = 64U << 20;
  std::size_t prompt_tokens_max = 1U << 20;
  std::size_t nesting_max = 64;
};
inline constexpr std::size_t kControlHeaderBytesMax = 131072;

// ---- two-part frame: u64 header bytes | u64 body bytes | u64 checksum (0 = none), big-endian,
// then header, then body ----

inline constexpr std::size_t kTwoPartHeadBytes = 24;
struct TwoPartHead {
  std::uint64_t header_bytes = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t checksum = 0;
};
/// kTruncated: fewer than 24 bytes; kMalformed: header over kControlHeaderBytesMax or body over
/// `body_bytes_max`.
[[nodiscard]] Result<TwoPartHead> ParseTwoPartHead(std::string_view bytes,
                                                   std::size_t body_bytes_max);

struct TwoPartView {
  std::string_view header;
  std::string_view body;
  std::size_t frame_bytes = 0;
};
/// One whole frame at the start of `bytes`; kTruncated while it is not all there.
[[nodiscard]] Result<TwoPartView> ParseTwoPart(std::string_view bytes, std::size_t body_bytes_max);
void AppendTwoPart(std::string& out, std::string_view header, std::string_view body);

// ---- control header of a request (JSON in both codecs) ----

enum class PayloadCodec : std::uint8_t { kJson, kMsgpack };
struct RequestControl {
  std::string id;  ///< context id, usually a UUID
  PayloadCodec codec = PayloadCodec::kJson;
  std::string response_type;
  std::string transport;  ///< "tcp_server"
  std::string address;    ///< where to dial
  std::string subject;    ///< goes into the handshake
  std::string context;
  std::string stream_type;
  std::optional<std::string>
      unknown_codec;  ///< payload_codec as sent, when it is neither json nor msgpack
};
/// kMalformed names the field. An unknown payload_codec is not an error here: the peer can still be
/// answered (in JSON).
[[nodiscard]] Result<RequestControl> ParseRequestControl(std::string_view json);
/// For clients: single_in, many_out.
[[nodiscard]] std::string EncodeRequestControl(const RequestControl& control);

// ---- body of `generate` ----

/// Where and under which names a prefill and a decode worker meet for a request.
struct BootstrapInfo {
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t room = 0;
  std::optional<Uuid> handoff_id;  ///< one per attempt
  friend bool operator==(const BootstrapInfo&, const BootstrapInfo&) = default;
};

struct PreprocessedRequest {
  std::string model;
  std::vector<std::uint32_t> token_ids;
  std::optional<std::uint32_t> max_tokens;  ///< stop_conditions.max_tokens
  std::optional<std::uint32_t> min_tokens;
  std::optional<bool> ignore_eos;
  std::vector<std::string> annotations;
  std::optional<std::uint32_t> dp_rank;  ///< routing.dp_rank
  std::optional<std::uint64_t> backend_instance_id;
  std::optional<BootstrapInfo> bootstrap_info;
  std::optional<double> request_timestamp_ms;
  bool health_check = false;  ///< `_HEALTH_CHECK`
};
/// Unknown keys are skipped, missing and null optional keys defaulted. kMalformed: not UTF-8, wrong
/// type, nested too deep, bytes after the value; kUnsupported: over a limit. The text names the
/// field and is fit for the client.
[[nodiscard]] Result<PreprocessedRequest> DecodeRequest(PayloadCodec codec,
                                                        std::string_view body,
                                                        const DecodeLimits& limits);
/// For clients and tests: the keys above that are set.
[[nodiscard]] std::string EncodeRequest(PayloadCodec codec, const PreprocessedRequest& request);

// ---- response items ----

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;
};
/// Header-only frames.
void AppendHandshake(std::string& out, std::string_view subject);
void AppendPrologue(std::string& out);                              ///< {"error":null}
void AppendErrorPrologue(std::string& out, std::string_view text);  ///< {"error":"..."}
void AppendSentinel(std::string& out);
/// Data frames: one token ({"data":{"data":{"token_ids":[t]}},"complete_final":false}); no
/// allocation beyond `out` growing.
void AppendToken(std::string& out, PayloadCodec codec, std::uint32_t token);
void AppendToken(std::string& out, PayloadCodec codec, std::uint32_t token, const Usage& usage);
/// The token of a prefill worker: with disaggregated_params "dummy", which says that a decode
/// worker can go on from here.
void AppendPrefillToken(std::string& out,
                        PayloadCodec codec,
                        std::uint32_t token,
                        const Usage& usage);
/// Empty token list with finish_reason ("length", "stop", "cancelled", ...) and, if given,
/// completion_usage.
void AppendFinish(std::string& out,
                  PayloadCodec codec,
                  std::string_view finish_reason,
                  const Usage* usage);
/// finish_reason {"error": text}: an error of the engine about this request.
void AppendFinishError(std::string& out, PayloadCodec codec, std::string_view text);
/// Annotated event "error" with error {error_type, message}: a refusal that keeps the worker
/// routable (wire.md 6.4).
void AppendErrorItem(std::string& out,
                     PayloadCodec codec,
                     std::string_view error_type,
                     std::string_view text);
void AppendCompleteFinal(std::string& out, PayloadCodec codec);

/// What a client reads from one frame of a response stream.
struct ResponseFrame {
  enum class Kind : std::uint8_t {
    kHandshake,
    kPrologue,
    kErrorPrologue,
    kItem,
    kErrorItem,
    kCompleteFinal,
    kSentinel
  };
  Kind kind = Kind::kItem;
  std::string subject;                   ///< kHandshake
  std::vector<std::uint32_t> token_ids;  ///< kItem
  std::optional<std::string> finish_reason;
  std::optional<Usage> usage;
  bool disaggregated_params = false;  ///< kItem: it has some, not null
  std::string error;      ///< text of kErrorPrologue, kErrorItem, or of finish_reason {"error"}
  std::string_view body;  ///< as it came, for items of other endpoints than `generate`
};
[[nodiscard]] Result<ResponseFrame> DecodeResponseFrame(PayloadCodec codec,
                                                        const TwoPartView& frame);

// ---- control frames of the frontend on a response connection ----

enum class StreamControl : std::uint8_t { kStop, kKill, kSentinel };
/// kMalformed for anything else (data, bad JSON, unknown words).
[[nodiscard]] Result<StreamControl> ParseStreamControl(const TwoPartView& frame);
void AppendStreamControl(std::string& out, StreamControl control);

// ---- event plane ----

/// Source: events.md 3 (NATS envelope, always msgpack).
struct EventEnvelope {
  std::uint64_t publisher_id = 0;
  std::uint64_t sequence = 0;
  std::uint64_t published_at_ms = 0;  ///< Unix time
  std::string topic;
  std::string payload;
};
[[nodiscard]] std::string EncodeEnvelope(const EventEnvelope& envelope);
/// The same, appended. It is at most kEnvelopeBytesMax longer than topic and payload.
inline constexpr std::size_t kEnvelopeBytesMax = 96;
void AppendEnvelope(std::string& out,
                    std::uint64_t publisher_id,
                    std::uint64_t sequence,
                    std::uint64_t published_at_ms,
                    std::string_view topic,
                    std::string_view payload);
[[nodiscard]] Result<EventEnvelope> DecodeEnvelope(std::string_view bytes);

/// kv_metrics. Source: events.md 5.
struct ActiveLoad {
  std::uint64_t worker_id = 0;
  std::uint32_t dp_rank = 0;
  std::optional<std::uint64_t> active_decode_blocks;
  std::optional<std::uint64_t> active_prefill_tokens;
  std::optional<std::uint64_t> kv_used_blocks;
};
[[nodiscard]] std::string EncodeActiveLoad(const ActiveLoad& load);
[[nodiscard]] Result<ActiveLoad> DecodeActiveLoad(std::string_view bytes);

}  // namespace understudy::transport
