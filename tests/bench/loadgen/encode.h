// The requests and frames of the wire as the load generator writes them; its own code, so that the
// measuring side does not share a mistake with the worker.
#pragma once

#include "tests/bench/loadgen/options.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::loadgen {

/// The request body in the options' codec: the same document in both.
[[nodiscard]] std::string EncodeBody(const Options& options,
                                     const std::vector<std::uint32_t>& token_ids);

/// The control header that goes before the body. `listen_address` is HOST:PORT for the dial back,
/// `subject` the stream's name there.
[[nodiscard]] std::string EncodeControl(const Options& options,
                                        std::string_view listen_address,
                                        std::string_view request_id,
                                        std::string_view subject);

/// Three big-endian u64 (header bytes, body bytes, checksum 0), header, body.
[[nodiscard]] std::string TwoPart(std::string_view header, std::string_view body);

void PutBigEndian(std::string& out, std::uint64_t value, int bytes);
[[nodiscard]] std::uint64_t GetBigEndian(const char* bytes, int count);

/// A random id in the usual text form of 36 characters.
[[nodiscard]] std::string RandomUuid();

/// Tokens in one data frame, by a light scan for the token list.
[[nodiscard]] std::uint64_t CountTokens(Codec codec, std::string_view payload);
/// True for the frame that closes a stream's data.
[[nodiscard]] bool IsFinal(Codec codec, std::string_view payload);

}  // namespace understudy::loadgen
