// The words of the rendezvous, on the wire and in debug texts.
#pragma once

#include "understudy/transport/bootstrap_frame.h"

#include <array>
#include <string_view>

namespace understudy::transport {

// In the order of the enumerators.
inline constexpr std::array<std::string_view, 2> kOrderNames = {"SourceFirst", "DestinationFirst"};
inline constexpr std::array<std::string_view, 3> kEngineNames = {"vllm", "sglang", "trtllm"};
inline constexpr std::array<std::string_view, 3> kEngineDebugNames = {"Vllm", "Sglang", "Trtllm"};
inline constexpr std::array<std::string_view, 8> kActionNames = {"SubmitPrefill",
                                                                 "ReserveDestination",
                                                                 "StartTransfer",
                                                                 "ActivateDestination",
                                                                 "ReleaseSource",
                                                                 "CancelSource",
                                                                 "CancelDestination",
                                                                 "Complete"};
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {
    "Submitted", "Accepted", "Scheduled", "Applied", "Noop", "Failed"};
inline constexpr std::array<std::string_view, 2> kTimingNames = {"full_prompt",
                                                                 "destination_missing"};
inline constexpr std::array<std::string_view, 2> kTimingDebugNames = {"FullPrompt",
                                                                      "DestinationMissing"};
inline constexpr std::array<std::string_view, 6> kFactNames = {
    "SourceHeld", "DestinationReserved", "TransferCompleted", "Failed", "TimedOut", "Canceled"};

template <class Enum, std::size_t N>
constexpr std::string_view NameIn(const std::array<std::string_view, N>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

template <class Enum, std::size_t N>
bool ValueIn(const std::array<std::string_view, N>& names, std::string_view name, Enum& out) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      out = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

}  // namespace understudy::transport
