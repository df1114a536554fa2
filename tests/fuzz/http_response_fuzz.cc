#include "tests/fuzz/fuzz.h"
#include "transport/etcd/http_response.h"

#include <algorithm>
#include <string>

using namespace understudy;
using transport::etcd::ResponseParser;

namespace {

constexpr std::size_t kBodyBytesMax = 4096;

/// Cuts as the bytes themselves say, so that a mutation moves them.
void FeedInPieces(ResponseParser& parser, std::string_view bytes, bool one_by_one) {
  while (!bytes.empty()) {
    const auto first = static_cast<unsigned char>(bytes.front());
    const std::size_t size = one_by_one ? 1 : 1U + first % 32U;
    parser.Feed(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::View(data, size);
  for (const bool end : {false, true}) {
    ResponseParser whole(kBodyBytesMax);
    whole.Feed(bytes);
    if (end) {
      UNDERSTUDY_ASSERT(whole.FeedEnd() != ResponseParser::State::kMore);
    }
    const auto reply = whole.TakeReply();
    UNDERSTUDY_ASSERT(reply.body.size() <= kBodyBytesMax);
    for (const bool one_by_one : {false, true}) {
      ResponseParser cut(kBodyBytesMax);
      FeedInPieces(cut, bytes, one_by_one);
      if (end) {
        cut.FeedEnd();
      }
      UNDERSTUDY_ASSERT(cut.state() == whole.state() && cut.reason() == whole.reason());
      if (cut.state() == ResponseParser::State::kDone) {
        const auto same = cut.TakeReply();
        UNDERSTUDY_ASSERT(reply.status >= 200 && reply.status <= 599);
        UNDERSTUDY_ASSERT(same.status == reply.status && same.body == reply.body);
        UNDERSTUDY_ASSERT(cut.keep_alive() == whole.keep_alive());
      }
    }
  }
  return 0;
}
