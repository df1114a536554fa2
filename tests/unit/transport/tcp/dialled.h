// A ResponseStream on a loop thread, with a blocking face for tests.
#pragma once

#include "tests/fakes/loop_thread.h"
#include "understudy/transport/codec.h"
#include "understudy/transport/response_stream.h"

#include <future>
#include <memory>
#include <string>
#include <utility>

namespace understudy::transport {

using EndAndText = std::pair<StreamEnd, std::string>;

class Dialled {
 public:
  Dialled(fakes::LoopThread& thread, const std::string& address)
      : thread_(thread), over_(ended_.get_future()) {
    thread_.Do([&] {
      stream_ = DialResponseStream(
          thread_.loop(), address, [this](StreamEnd end, const std::string& text) {
            ++ends_;
            if (ends_ == 1) {
              ended_.set_value({end, text});
            }
          });
    });
  }
  ~Dialled() {
    thread_.Do([this] { stream_.reset(); });
  }
  Dialled(const Dialled&) = delete;
  Dialled& operator=(const Dialled&) = delete;

  /// `use(stream)` on the loop.
  template <class F>
  auto Do(F use) {
    return thread_.Do([&] { return use(*stream_); });
  }
  void Say(std::string_view bytes) {
    Do([&](ResponseStream& stream) {
      stream.Append(bytes);
      stream.Flush();
    });
  }
  EndAndText WaitForEnd() { return fakes::Await(std::move(over_)); }
  void Destroy() {
    thread_.Do([this] { stream_.reset(); });
  }
  /// Calls of on_end so far.
  int ends() {
    return thread_.Do([this] { return ends_; });
  }

 private:
  fakes::LoopThread& thread_;
  std::promise<EndAndText> ended_;
  std::future<EndAndText> over_;
  std::unique_ptr<ResponseStream> stream_;  // used on the loop
  int ends_ = 0;
};

inline std::string Handshake() {
  std::string bytes;
  AppendHandshake(bytes, "subject-1");
  AppendPrologue(bytes);
  return bytes;
}
inline std::string Token(std::uint32_t token) {
  std::string bytes;
  AppendToken(bytes, PayloadCodec::kJson, token);
  return bytes;
}
inline std::string Ending() {
  std::string bytes;
  AppendFinish(bytes, PayloadCodec::kJson, "length", nullptr);
  AppendCompleteFinal(bytes, PayloadCodec::kJson);
  AppendSentinel(bytes);
  return bytes;
}
inline std::string Control(StreamControl control) {
  std::string bytes;
  AppendStreamControl(bytes, control);
  return bytes;
}

}  // namespace understudy::transport
