#include "worker/config/flag_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace understudy::worker {
namespace {

/// Fields of the messages, each with the flag that sets it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 43> kFlagOfField = {{
    {"engine_type", "--engine-type"},
    {"num_gpu_blocks", "--num-gpu-blocks-override"},
    {"block_size", "--block-size"},
    {"max_num_seqs", "--max-num-seqs"},
    {"max_num_batched_tokens", "--max-num-batched-tokens"},
    {"speedup_ratio", "--speedup-ratio"},
    {"decode_speedup_ratio", "--decode-speedup-ratio"},
    {"dp_size", "--data-parallel-size"},
    {"startup_time", "--startup-time"},
    {"aic_tp_size", "--aic-tp-size"},
    {"aic_attention_dp_size", "--aic-attention-dp-size"},
    {"aic_nextn", "--aic-nextn"},
    {"aic_nextn_accept_rates", "--aic-nextn-accept-rates"},
    {"gpu_memory_utilization", "--gpu-memory-utilization"},
    {"mem_fraction_static", "--mem-fraction-static"},
    {"free_gpu_memory_fraction", "--free-gpu-memory-fraction"},
    {"kv_bytes_per_token", "--kv-bytes-per-token"},
    {"kv_transfer_bandwidth", "--kv-transfer-bandwidth"},
    {"kv_transfer_timing_mode", "--kv-transfer-timing-mode"},
    {"num_g3_blocks", "--num-g3-blocks"},
    {"enable_g4_storage", "--enable-g4-storage"},
    {"bandwidth_g1_to_g2_gbps", "--bandwidth-g1-to-g2-gbps"},
    {"bandwidth_g2_to_g1_gbps", "--bandwidth-g2-to-g1-gbps"},
    {"bandwidth_g2_to_g3_gbps", "--bandwidth-g2-to-g3-gbps"},
    {"bandwidth_g3_to_g2_gbps", "--bandwidth-g3-to-g2-gbps"},
    {"bandwidth_g2_to_g4_gbps", "--bandwidth-g2-to-g4-gbps"},
    {"bandwidth_g4_to_g2_gbps", "--bandwidth-g4-to-g2-gbps"},
    {"reasoning.thinking_ratio", "--reasoning"},
    {"preemption_mode", "--preemption-mode"},
    {"sglang.max_prefill_tokens", "--sglang-max-prefill-tokens"},
    {"sglang.chunked_prefill_size", "--sglang-chunked-prefill-size"},
    {"sglang.clip_max_new_tokens", "--sglang-clip-max-new-tokens"},
    {"sglang.schedule_conservativeness", "--sglang-schedule-conservativeness"},
    {"max_model_len", "--max-model-len"},
    {"enable_chunked_prefill", "--no-enable-chunked-prefill"},
    {"kv_transfer_bytes_per_token", "--kv-bytes-per-token"},
    {"kv_cache_bytes_per_token", "--kv-bytes-per-token"},
    {"native_host_offload", "--num-host-blocks"},
    {"native_host_offload.num_host_blocks", "--num-host-blocks"},
    {"native_host_offload.d2h_bandwidth_gbps", "--host-offload-d2h-bandwidth-gbps"},
    {"native_host_offload.h2d_bandwidth_gbps", "--host-offload-h2d-bandwidth-gbps"},
    {"thinking_ratio", "--reasoning"},
    {"tensor_parallel_size", "--ais-tp-size"},
}};

/// The flag of the first field that a message names; empty when it names none.
std::string_view FlagIn(std::string_view message) {
  constexpr std::string_view kNameLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  for (auto at = message.find_first_of(kNameLetters); at != std::string_view::npos;
       at = message.find_first_of(kNameLetters, at)) {
    const auto end = std::min(message.find_first_not_of(kNameLetters, at), message.size());
    const auto word = message.substr(at, end - at);
    const auto* found = std::find_if(kFlagOfField.begin(),
                                     kFlagOfField.end(),
                                     [word](const auto& entry) { return entry.first == word; });
    if (found != kFlagOfField.end()) {
      return found->second;
    }
    at = end;
  }
  return {};
}

}  // namespace

std::string WithFlag(const std::string& message) {
  const auto flag = FlagIn(message);
  return flag.empty() ? message : message + " (" + std::string(flag) + ")";
}

}  // namespace understudy::worker
