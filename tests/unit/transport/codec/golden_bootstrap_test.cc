// Frames between original workers, recorded by a proxy: read, and written again byte for byte.
#include "tests/unit/transport/codec/golden.h"
#include "understudy/transport/bootstrap_frame.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

class GoldenBootstrap : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenBootstrap, M134_FramesAreReadAndWrittenToTheSameBytes) {
  const golden::Json vector = golden::Load(std::string("disagg/") + GetParam() + ".json");
  std::size_t frames = 0;
  for (const golden::Json& connection : vector.at("bootstrap_connections")) {
    for (const golden::Json& item : connection) {
      if (item.contains("header_hex")) {
        std::string header;
        AppendBootstrapHeader(header);
        EXPECT_EQ(header, golden::FromHex(item.at("header_hex"))) << "M-132";
        EXPECT_TRUE(CheckBootstrapHeader(header));
        continue;
      }
      if (!item.contains("body_text")) {
        continue;  // FIN
      }
      const std::string bytes =
          golden::FromHex(item.at("len_le_hex")) + item.at("body_text").get<std::string>();
      const auto body = SplitBootstrapFrame(bytes);
      ASSERT_TRUE(body) << body.error().message;
      EXPECT_EQ(body->frame_bytes, bytes.size());
      const auto frame = DecodeBootstrapBody(body->json);
      ASSERT_TRUE(frame) << frame.error().message << ": " << body->json;
      std::string again;
      ASSERT_TRUE(AppendBootstrapFrame(again, *frame));
      EXPECT_EQ(again, bytes);
      ++frames;
    }
  }
  EXPECT_GT(frames, 1U);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         GoldenBootstrap,
                         ::testing::ValuesIn(golden::kHandoffs),
                         [](const auto& file) { return std::string(file.param); });

/// Messages of scripted peers and the originals that answered them, without their envelopes.
class GoldenProbes : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenProbes, M134_M135_MessagesAreReadAndWrittenToTheSameText) {
  const golden::Json vector = golden::Load(std::string("disagg/") + GetParam() + ".json");
  const std::string identity =
      R"({"identity":{"handoff_id":"fd2886ae-bf20-446d-9001-301c934eb54f","bootstrap_room":7,)"
      R"("request_id":"449eede6-c0da-4a04-9396-85a64d3130ba"},"message":)";
  const std::set<std::string> not_messages = {"\"EOF\"", "\"TIMEOUT\""};
  std::size_t messages = 0;
  for (const auto& [name, items] : vector.at("cases").items()) {
    for (const golden::Json& item : items) {
      std::string message;
      if (item.contains("message")) {
        message = item.at("message").dump();
      } else if (item.contains("first_frame")) {
        message = item.at("first_frame").at(1).dump();
      }
      if (message.empty() || not_messages.contains(message)) {
        continue;
      }
      const auto frame = DecodeBootstrapBody(identity + message + "}");
      ASSERT_TRUE(frame) << name << ": " << frame.error().message << ": " << message;
      std::string bytes;
      ASSERT_TRUE(AppendBootstrapFrame(bytes, *frame));
      EXPECT_EQ(bytes.substr(kBootstrapLengthBytes), identity + message + "}") << name;
      ++messages;
    }
  }
  EXPECT_GT(messages, 10U);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         GoldenProbes,
                         ::testing::Values("bootstrap_source_probes",
                                           "bootstrap_destination_probes"),
                         [](const auto& file) { return std::string(file.param); });

}  // namespace
}  // namespace understudy::transport
