// Captured bytes of real frontends and workers, from tests/vectors.
#pragma once

#include "understudy/transport/codec.h"

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::transport::golden {

using Json = nlohmann::ordered_json;

/// Hand-offs whose every frame was captured: tests/vectors/disagg/<name>.json.
inline constexpr const char* kHandoffs[] = {"vllm_source_first",
                                            "vllm_full_prompt_slow",
                                            "vllm_destination_missing_cold",
                                            "vllm_destination_missing_warm",
                                            "sglang_destination_first",
                                            "mismatch_engine_type",
                                            "bandwidth_zero",
                                            "client_disconnect_in_transfer",
                                            "frontend161_bootstrap"};

/// `name` is relative to tests/vectors. A test that cannot read its vector fails.
Json Load(const std::string& name);
/// Files of tests/vectors/wire whose name begins so, as `wire/<name>`.
std::vector<std::string> WireFiles(const std::string& prefix);
std::string FromHex(const std::string& hex);
PayloadCodec CodecOf(const Json& vector);

}  // namespace understudy::transport::golden
