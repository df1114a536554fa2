// vectors/wire/control_frames.json and worker_errors.json.
#include "tests/unit/transport/codec/golden.h"

#include <string>

#include <gtest/gtest.h>

namespace understudy::transport::golden {
namespace {

std::string HandshakeSubject(const std::string& bytes) {
  const auto frame = ParseTwoPart(bytes, 0);
  return DecodeResponseFrame(PayloadCodec::kJson, *frame)->subject;
}

TEST(GoldenControlFrames, WorkerFramesReencodeToTheSameBytes) {
  const Json frames = Load("wire/control_frames.json")["worker_to_frontend"];
  const auto bytes = [&](const char* name) { return FromHex(frames.at(name)); };
  std::string out;
  AppendHandshake(out, HandshakeSubject(bytes("handshake")));
  EXPECT_EQ(out, bytes("handshake"));
  out.clear();
  AppendPrologue(out);
  EXPECT_EQ(out, bytes("prologue_ok"));
  out.clear();
  AppendErrorPrologue(out, "Generate Error: mini refuses");
  EXPECT_EQ(out, bytes("prologue_error_1.3.0"));
  out.clear();
  AppendCompleteFinal(out, PayloadCodec::kJson);
  EXPECT_EQ(out, bytes("complete_final_json"));
  out.clear();
  AppendCompleteFinal(out, PayloadCodec::kMsgpack);
  EXPECT_EQ(out, bytes("complete_final_msgpack"));
  out.clear();
  AppendSentinel(out);
  EXPECT_EQ(out, bytes("sentinel"));
}

// We never send the typed form (1.6 only): a refusal of one request is an item, which keeps the
// worker routable in both releases.
TEST(GoldenControlFrames, TypedErrorPrologueDecodes) {
  const Json frames = Load("wire/control_frames.json")["worker_to_frontend"];
  const std::string bytes = FromHex(frames.at("prologue_error_typed_1.6.1"));
  const auto decoded = DecodeResponseFrame(PayloadCodec::kJson, *ParseTwoPart(bytes, 0));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->kind, ResponseFrame::Kind::kErrorPrologue);
  EXPECT_EQ(decoded->error, "Generate Error: too long");
}

TEST(GoldenControlFrames, FrontendFramesDecodeAndReencode) {
  std::size_t seen = 0;
  const Json vector = Load("wire/control_frames.json");
  for (const auto& [name, hex] : vector["frontend_to_worker"].items()) {
    const std::string bytes = FromHex(hex);
    std::string again;
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto frame = ParseTwoPart(rest, 0);
      ASSERT_TRUE(frame.has_value()) << name;
      const auto control = ParseStreamControl(*frame);
      ASSERT_TRUE(control.has_value()) << name;
      AppendStreamControl(again, *control);
      rest.remove_prefix(frame->frame_bytes);
      ++seen;
    }
    EXPECT_EQ(again, bytes) << name;
  }
  EXPECT_EQ(seen, 3U);  // kill; stop then kill
}

std::string ErrorFrame(const std::string& name) {
  const Json vector = Load("wire/worker_errors.json");
  for (const Json& error : vector["cases"]) {
    if (error["name"] == name) {
      return FromHex(error["frames_hex"][0]);
    }
  }
  return {};
}

TEST(GoldenWorkerErrors, FramesThatBothFrontendsUnderstoodReencode) {
  std::string out;
  AppendErrorPrologue(out, "Generate Error: mini refuses");
  EXPECT_EQ(out, ErrorFrame("prologue_error"));
  out.clear();
  AppendErrorItem(out, PayloadCodec::kJson, "InvalidArgument", "bad arg from mini");
  EXPECT_EQ(out, ErrorFrame("annotated_error_typed"));
  out.clear();
  AppendFinishError(out, PayloadCodec::kJson, "engine boom");
  EXPECT_EQ(out, ErrorFrame("finish_reason_error"));
}

TEST(GoldenWorkerErrors, ErrorWithACommentOnlyDecodes) {
  const std::string bytes = ErrorFrame("annotated_error_comment");
  const auto decoded = DecodeResponseFrame(PayloadCodec::kJson, *ParseTwoPart(bytes, 1000));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->kind, ResponseFrame::Kind::kErrorItem);
  EXPECT_EQ(decoded->error, "boom from mini");
}

}  // namespace
}  // namespace understudy::transport::golden
