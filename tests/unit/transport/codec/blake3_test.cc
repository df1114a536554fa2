#include "transport/codec/blake3.h"

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

namespace understudy::transport {
namespace {

/// Bytes 0, 1, ... 250, 0, 1, ...; the digests are the output of b3sum 1.2.0 over them.
std::string Pattern(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) {
    bytes += static_cast<char>(i % 251);
  }
  return bytes;
}

struct Case {
  std::size_t size;
  const char* digest;
};

class Blake3Sizes : public ::testing::TestWithParam<Case> {};

TEST_P(Blake3Sizes, AgreesWithB3sum) {
  EXPECT_EQ(Blake3Hex(Pattern(GetParam().size)), GetParam().digest);
}

INSTANTIATE_TEST_SUITE_P(
    AroundBlocksChunksAndSubtrees,
    Blake3Sizes,
    ::testing::Values(
        Case{0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
        Case{1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
        Case{63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"},
        Case{64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"},
        Case{65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"},
        Case{1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
        Case{1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
        Case{1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
        Case{2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
        Case{2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
        Case{3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
        Case{4097, "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995"},
        Case{31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
        Case{102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"}));

TEST(Blake3, HashesText) {
  EXPECT_EQ(Blake3Hex("abc"), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

}  // namespace
}  // namespace understudy::transport
