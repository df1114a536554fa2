#include "transport/codec/big_endian.h"
#include "understudy/transport/codec.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

constexpr std::size_t kBodyMax = 1000;

std::string Head(std::uint64_t header, std::uint64_t body, std::uint64_t checksum = 0) {
  char bytes[kTwoPartHeadBytes];
  StoreU64(bytes, header);
  StoreU64(bytes + 8, body);
  StoreU64(bytes + 16, checksum);
  return {bytes, sizeof(bytes)};
}

Errc CodeOf(const std::string& bytes, std::size_t body_max = kBodyMax) {
  const auto parsed = ParseTwoPart(bytes, body_max);
  EXPECT_FALSE(parsed.has_value());
  return parsed.has_value() ? Errc::kInternal : parsed.error().code;
}

TEST(FrameCodec, GivesHeaderBodyAndLength) {
  std::string bytes;
  AppendTwoPart(bytes, "head", "the body");
  bytes += "next";

  const auto frame = ParseTwoPart(bytes, kBodyMax);

  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->header, "head");
  EXPECT_EQ(frame->body, "the body");
  EXPECT_EQ(frame->frame_bytes, bytes.size() - 4);
}

TEST(FrameCodec, ReadsChecksumOfHead) {
  const auto head = ParseTwoPartHead(Head(1, 2, 0x0102030405060708), kBodyMax);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->checksum, 0x0102030405060708U);
}

TEST(FrameCodec, AcceptsEmptyFrame) {
  const auto frame = ParseTwoPart(Head(0, 0), kBodyMax);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->frame_bytes, kTwoPartHeadBytes);
}

TEST(FrameCodec, AsksForMoreWhileFrameIsNotAllThere) {
  std::string bytes;
  AppendTwoPart(bytes, "head", "body");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(CodeOf(bytes.substr(0, size)), Errc::kTruncated) << size;
  }
}

TEST(FrameCodec, RejectsHeaderLongerThanLimit) {
  EXPECT_EQ(CodeOf(Head(kControlHeaderBytesMax + 1, 0)), Errc::kMalformed);
  EXPECT_EQ(CodeOf(Head(kControlHeaderBytesMax, 0)), Errc::kTruncated);
}

TEST(FrameCodec, RejectsBodyLongerThanLimit) {
  EXPECT_EQ(CodeOf(Head(0, kBodyMax + 1)), Errc::kMalformed);
  EXPECT_EQ(CodeOf(Head(0, kBodyMax)), Errc::kTruncated);
}

TEST(FrameCodec, RejectsLengthsThatNoMemoryCouldHold) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 40U, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    EXPECT_EQ(CodeOf(Head(0, bytes)), Errc::kMalformed) << bytes;
    EXPECT_EQ(CodeOf(Head(bytes, 0)), Errc::kMalformed) << bytes;
  }
}

TEST(FrameCodec, LengthsThatWrapAroundAreNotAFrameEvenWithoutALimit) {
  const std::size_t no_limit = ~std::size_t{0};
  EXPECT_EQ(CodeOf(Head(100, ~std::uint64_t{0} - 50) + std::string(200, 'x'), no_limit),
            Errc::kTruncated);
}

TEST(FrameCodec, NamesLengthAndLimit) {
  const auto parsed = ParseTwoPart(Head(0, 5000), kBodyMax);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().message, "frame body of 5000 bytes, limit 1000");
}

using Frames = std::vector<std::pair<std::string, std::string>>;

Frames SampleFrames(std::mt19937& random) {
  Frames frames;
  const auto text = [&](std::size_t max) {
    std::string bytes(random() % (max + 1), '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random() & 0xffU);
    }
    return bytes;
  };
  const std::size_t count = 1 + random() % 12;
  for (std::size_t i = 0; i < count; ++i) {
    frames.emplace_back(text(random() % 3 == 0 ? 0 : 60), text(random() % 3 == 0 ? 0 : kBodyMax));
  }
  return frames;
}

/// Feeds `stream` piece by piece, as a connection would, and takes every frame as soon as it is
/// whole.
Frames DecodeInPieces(const std::string& stream, std::mt19937& random) {
  Frames frames;
  std::string buffer;
  std::size_t fed = 0;
  while (fed < stream.size()) {
    const std::size_t piece = std::min<std::size_t>(1 + random() % 90, stream.size() - fed);
    buffer.append(stream, fed, piece);
    fed += piece;
    while (true) {
      const auto frame = ParseTwoPart(buffer, kBodyMax);
      if (!frame) {
        EXPECT_EQ(frame.error().code, Errc::kTruncated);
        break;
      }
      frames.emplace_back(frame->header, frame->body);
      buffer.erase(0, frame->frame_bytes);
    }
  }
  EXPECT_TRUE(buffer.empty());
  return frames;
}

class FrameSplit : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(FrameSplit, AnyCutOfTheStreamGivesTheSameFrames) {
  std::mt19937 random(GetParam());
  const Frames frames = SampleFrames(random);
  std::string stream;
  for (const auto& [header, body] : frames) {
    AppendTwoPart(stream, header, body);
  }
  EXPECT_EQ(DecodeInPieces(stream, random), frames);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FrameSplit, ::testing::Range(0U, 200U));

}  // namespace
}  // namespace understudy::transport
