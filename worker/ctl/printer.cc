#include "worker/ctl/printer.h"

#include "understudy/transport/records.h"

#include <sstream>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using Kind = transport::ControlItem::Kind;
using nlohmann::ordered_json;
using transport::ControlItem;
using transport::ControlRank;

std::string Number(std::uint64_t number) {
  return std::to_string(number);
}

std::string StatsText(const ControlItem& item) {
  std::string text = std::string(NameOf(item.state)) + " requests=" + Number(item.requests);
  for (const ControlRank& rank : item.ranks) {
    text += "\n  rank=" + Number(rank.rank) + " running=" + Number(rank.requests_running) +
            " waiting=" + Number(rank.requests_waiting) +
            " blocks_used=" + Number(rank.blocks_used) +
            " blocks_cached=" + Number(rank.blocks_cached) +
            " blocks_total=" + Number(rank.blocks_total) + " handoffs=" + Number(rank.handoffs) +
            " sessions=" + Number(rank.sessions);
  }
  return text;
}

std::string ClearedText(const ControlItem& item) {
  std::string text = "cleared";
  for (const ControlRank& rank : item.ranks) {
    text += "\n  rank=" + Number(rank.rank) +
            (rank.refused ? " refused, because it is in use:"
                          : " blocks_cleared=" + Number(rank.blocks_cleared)) +
            " blocks_in_use=" + Number(rank.blocks_in_use);
  }
  return text;
}

std::string StateText(const transport::ControlCommand& command, const ControlItem& item) {
  const bool asked =
      command.op == transport::ControlOp::kDrain || command.op == transport::ControlOp::kResume;
  return std::string(NameOf(item.state)) + " requests=" + Number(item.requests) +
         (asked && !item.changed ? " (unchanged)" : "");
}

std::string TimingText(const transport::BootstrapTiming& timing) {
  std::ostringstream text;
  text << "source_held mode="
       << (timing.mode == transport::BootstrapTiming::Mode::kFullPrompt ? "full_prompt"
                                                                        : "destination_missing")
       << " full_prompt_tokens=" << timing.full_prompt_tokens << " kv_bytes_per_token=";
  timing.kv_bytes_per_token ? text << *timing.kv_bytes_per_token : text << "-";
  text << " bandwidth_gb_s=";
  timing.bandwidth_gb_s ? text << *timing.bandwidth_gb_s : text << "-";
  return text.str();
}

/// The item as it stood on the wire.
ordered_json WireOf(const ControlItem& item) {
  std::string frame;
  transport::AppendControlItem(frame, transport::PayloadCodec::kJson, item);
  return ordered_json::parse(frame.substr(transport::kTwoPartHeadBytes))["data"]["data"];
}

}  // namespace

std::string DescribeControlItem(std::uint64_t instance,
                                const transport::ControlCommand& command,
                                const ControlItem& item) {
  const std::string who = transport::HexId(instance) + " ";
  switch (item.kind) {
    case Kind::kStats:
      return who + StatsText(item);
    case Kind::kCleared:
      return who + ClearedText(item);
    case Kind::kState:
      return who + StateText(command, item);
    case Kind::kRegistered:
      return who + "registered handoff_id=" + ToText(command.handoff_id) +
             " generation=" + Number(item.generation);
    case Kind::kOutcome:
      return who + std::string(NameOf(item.outcome));
    case Kind::kSourceHeld:
      return who + TimingText(item.timing);
    case Kind::kDestinationReserved:
      return who + "destination_reserved transferable_prompt_tokens=" +
             Number(item.transferable_prompt_tokens);
    case Kind::kToken:
      return who + "token=" + Number(item.token);
    case Kind::kFinished:
      return who + "finished reason=" + item.reason;
  }
  return who;
}

std::string ControlItemJson(std::uint64_t instance,
                            const transport::ControlCommand& command,
                            const ControlItem& item) {
  ordered_json line{{"instance", transport::HexId(instance)}};
  if (item.kind == Kind::kRegistered) {
    line["handoff_id"] = ToText(command.handoff_id);
  }
  line.update(WireOf(item));
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace understudy::worker
