#include "plugin/mocker/config/engine_args_warnings.h"

#include "plugin/mocker/config/value_text.h"

namespace understudy::mocker {

namespace {

template <class T>
bool IsSet(const Argument<T>& argument) {
  return argument.value.has_value();
}
template <>
bool IsSet(const Argument<bool>& argument) {
  return argument.value.value_or(false);
}
/// Of these counts 0 means none.
template <>
bool IsSet(const Argument<std::uint64_t>& argument) {
  return argument.value.value_or(0) != 0;
}

}  // namespace

void WarnAbout(std::initializer_list<GivenField> fields,
               const char* why,
               std::vector<std::string>& warnings) {
  std::string names;
  int count = 0;
  for (const auto& [field, given] : fields) {
    if (given) {
      names += (names.empty() ? "" : ", ") + std::string(field);
      ++count;
    }
  }
  if (count > 0) {
    warnings.push_back(names + (count == 1 ? " has no effect: " : " have no effect: ") + why);
  }
}

std::vector<std::string> EngineArgsWarnings(const EngineArguments& arguments,
                                            EngineType engine_type) {
  const EngineArguments& in = arguments;
  std::vector<std::string> warnings;
  const auto policy = in.sglang.value ? in.sglang.value->schedule_policy : std::nullopt;
  if (engine_type == EngineType::kSglang && policy && *policy != "fifo" && *policy != "fcfs" &&
      *policy != "lpm") {
    warnings.push_back("Unknown sglang schedule_policy '" + *policy + "', falling back to FIFO");
  }
  if (in.reasoning.value && in.reasoning.value->thinking_ratio > 1.0) {
    warnings.push_back("reasoning.thinking_ratio " +
                       PlainNumber(in.reasoning.value->thinking_ratio) +
                       " is above 1: answers are thinking to their end");
  }
  WarnAbout({{"num_g2_blocks", IsSet(in.num_g2_blocks)},
             {"num_g3_blocks", IsSet(in.num_g3_blocks)},
             {"enable_g4_storage", IsSet(in.enable_g4_storage)},
             {"offload_batch_size", IsSet(in.offload_batch_size)},
             {"bandwidth_g1_to_g2_gbps", IsSet(in.bandwidth_g1_to_g2_gbps)},
             {"bandwidth_g2_to_g1_gbps", IsSet(in.bandwidth_g2_to_g1_gbps)},
             {"bandwidth_g2_to_g3_gbps", IsSet(in.bandwidth_g2_to_g3_gbps)},
             {"bandwidth_g3_to_g2_gbps", IsSet(in.bandwidth_g3_to_g2_gbps)},
             {"bandwidth_g2_to_g4_gbps", IsSet(in.bandwidth_g2_to_g4_gbps)},
             {"bandwidth_g4_to_g2_gbps", IsSet(in.bandwidth_g4_to_g2_gbps)}},
            "offload tiers are not simulated, as in the reference's release 1.3.0",
            warnings);
  WarnAbout({{"gpu_memory_utilization", IsSet(in.gpu_memory_utilization)},
             {"mem_fraction_static", IsSet(in.mem_fraction_static)},
             {"free_gpu_memory_fraction", IsSet(in.free_gpu_memory_fraction)}},
            "the number of blocks is not estimated, num_gpu_blocks sets it",
            warnings);
  return warnings;
}

}  // namespace understudy::mocker
