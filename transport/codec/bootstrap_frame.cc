// Header and frames of the rendezvous. Source: dynamo-mocker 1.3.0 services/bootstrap.rs;
// tests/vectors/disagg.
#include "understudy/transport/bootstrap_frame.h"

#include <array>

namespace understudy::transport {
namespace {

constexpr std::string_view kMagic = "DMHF";

std::uint32_t LittleEndian(std::string_view bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    number = number << 8U | static_cast<std::uint8_t>(bytes[i - 1]);
  }
  return number;
}

}  // namespace

Status CheckBootstrapHeader(std::string_view bytes) {
  if (bytes.size() < kBootstrapHeaderBytes) {
    return Fail(Errc::kTruncated, "bootstrap connection closed before its header was complete");
  }
  if (!bytes.starts_with(kMagic)) {
    return Fail(Errc::kMalformed, "bootstrap protocol magic mismatch");
  }
  const std::uint32_t version = LittleEndian(bytes.substr(4, 2));
  if (version != kBootstrapVersion) {
    return Fail(Errc::kUnsupported,
                "unsupported bootstrap protocol version " + std::to_string(version));
  }
  if (LittleEndian(bytes.substr(6, 2)) != 0) {
    return Fail(Errc::kUnsupported, "bootstrap protocol flags must be zero");
  }
  return {};
}

void AppendBootstrapHeader(std::string& out) {
  out += kMagic;
  constexpr std::array<char, 4> kVersionAndFlags = {kBootstrapVersion, 0, 0, 0};
  out.append(kVersionAndFlags.data(), kVersionAndFlags.size());
}

Result<BootstrapBody> SplitBootstrapFrame(std::string_view bytes) {
  if (bytes.size() < kBootstrapLengthBytes) {
    return Fail(Errc::kTruncated, "bootstrap frame without its length");
  }
  const std::size_t length = LittleEndian(bytes.substr(0, kBootstrapLengthBytes));
  if (length > kBootstrapBodyBytesMax) {
    return Fail(Errc::kMalformed, "frame size too big");  // the reference's library says it so
  }
  if (bytes.size() < kBootstrapLengthBytes + length) {
    return Fail(Errc::kTruncated, "bootstrap frame cut off");
  }
  return BootstrapBody{bytes.substr(kBootstrapLengthBytes, length), kBootstrapLengthBytes + length};
}

}  // namespace understudy::transport
