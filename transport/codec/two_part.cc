// Source: wire.md 4.2; dynamo-runtime 1.3.0 and 1.6.1 two-part codec, vectors/wire/request_* and
// control_frames.json.
#include "transport/codec/big_endian.h"
#include "understudy/transport/codec.h"

#include <string>

namespace understudy::transport {

Result<TwoPartHead> ParseTwoPartHead(std::string_view bytes, std::size_t body_bytes_max) {
  if (bytes.size() < kTwoPartHeadBytes) {
    return Fail(Errc::kTruncated, "frame head needs 24 bytes, has " + std::to_string(bytes.size()));
  }
  const TwoPartHead head{
      LoadU64(bytes.data()), LoadU64(bytes.data() + 8), LoadU64(bytes.data() + 16)};
  if (head.header_bytes > kControlHeaderBytesMax) {
    return Fail(Errc::kMalformed,
                "frame header of " + std::to_string(head.header_bytes) + " bytes, limit " +
                    std::to_string(kControlHeaderBytesMax));
  }
  if (head.body_bytes > body_bytes_max) {
    return Fail(Errc::kMalformed,
                "frame body of " + std::to_string(head.body_bytes) + " bytes, limit " +
                    std::to_string(body_bytes_max));
  }
  return head;
}

Result<TwoPartView> ParseTwoPart(std::string_view bytes, std::size_t body_bytes_max) {
  UNDERSTUDY_TRY(const TwoPartHead head, ParseTwoPartHead(bytes, body_bytes_max));
  const std::string_view rest = bytes.substr(kTwoPartHeadBytes);
  // Compared one after the other: with a limit near 2^64 the sum could wrap.
  if (rest.size() < head.header_bytes || rest.size() - head.header_bytes < head.body_bytes) {
    return Fail(Errc::kTruncated, "frame is not all there");
  }
  return TwoPartView{rest.substr(0, head.header_bytes),
                     rest.substr(head.header_bytes, head.body_bytes),
                     kTwoPartHeadBytes + head.header_bytes + head.body_bytes};
}

void AppendTwoPart(std::string& out, std::string_view header, std::string_view body) {
  char head[kTwoPartHeadBytes] = {};
  StoreU64(head, header.size());
  StoreU64(head + 8, body.size());
  out.reserve(out.size() + sizeof(head) + header.size() + body.size());
  out.append(head, sizeof(head)).append(header).append(body);
}

}  // namespace understudy::transport
