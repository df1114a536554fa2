// The words of the control schema.
#pragma once

#include "understudy/transport/worker_control.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace understudy::transport {

// In the order of the enumerators.
inline constexpr std::array<std::string_view, kControlOpCount> kControlOpNames = {
    "stats",
    "clear_kv_blocks",
    "drain",
    "resume",
    "register_handoff",
    "submit_prefill",
    "reserve_destination",
    "activate_destination",
    "cancel_destination",
    "release_source",
    "cancel_source"};
inline constexpr std::array<std::string_view, 3> kControlStateNames = {
    "serving", "draining", "drained"};
inline constexpr std::array<std::string_view, 4> kControlOutcomeNames = {
    "submitted", "accepted", "applied", "noop"};
inline constexpr std::array<std::string_view, 9> kControlItemNames = {"stats",
                                                                      "cleared",
                                                                      "state",
                                                                      "registered",
                                                                      "outcome",
                                                                      "source_held",
                                                                      "destination_reserved",
                                                                      "token",
                                                                      "finished"};
/// clear_kv_blocks `in_use`: what to do where blocks are in use.
inline constexpr std::array<std::string_view, 2> kInUseNames = {"keep", "refuse"};

/// Members of a request; the numbers are bits of the masks below.
enum ControlMember : unsigned {
  kVersionMember,
  kOpMember,
  kRankMember,
  kIntervalMember,
  kInUseMember,
  kWaitMember,
  kHandoffMember,
  kGenerationMember,
  kRequestIdMember,
  kTokenIdsMember,
  kMaxTokensMember,
  kControlMemberCount,
};
inline constexpr std::array<std::string_view, kControlMemberCount> kControlMemberNames = {
    "version",
    "op",
    "rank",
    "interval_ms",
    "in_use",
    "wait",
    "handoff_id",
    "generation",
    "request_id",
    "token_ids",
    "max_tokens"};

struct ControlMembers {
  unsigned needed = 0;
  unsigned allowed = 0;  ///< besides those, and `version` and `op`
};
constexpr unsigned Bit(ControlMember member) {
  return 1U << member;
}
inline constexpr unsigned kHandoffBits = Bit(kHandoffMember) | Bit(kGenerationMember);
inline constexpr unsigned kPromptBits = Bit(kTokenIdsMember) | Bit(kMaxTokensMember);
/// By ControlOp.
inline constexpr std::array<ControlMembers, kControlOpCount> kControlMembers = {{
    {0, Bit(kRankMember) | Bit(kIntervalMember)},
    {0, Bit(kRankMember) | Bit(kInUseMember)},
    {0, Bit(kWaitMember)},
    {0, 0},
    {Bit(kHandoffMember), Bit(kRankMember)},
    {kHandoffBits | kPromptBits, Bit(kRankMember) | Bit(kRequestIdMember)},
    {kHandoffBits | kPromptBits, Bit(kRankMember) | Bit(kRequestIdMember)},
    {kHandoffBits, Bit(kRankMember)},
    {kHandoffBits, Bit(kRankMember)},
    {kHandoffBits, Bit(kRankMember)},
    {kHandoffBits, Bit(kRankMember)},
}};

}  // namespace understudy::transport
