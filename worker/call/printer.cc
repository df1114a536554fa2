#include "worker/call/printer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace understudy::worker {
namespace {

using nlohmann::ordered_json;

void Line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);  // readable as it comes, also through a pipe
}

void JsonLine(const ordered_json& line) {
  Line(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string Ms(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}
std::string Ms(const std::optional<double>& value) {
  return value ? Ms(*value) : "-";
}

void Put(ordered_json& line, const char* key, const std::optional<double>& value) {
  if (value) {
    line[key] = *value;
  }
}

ordered_json GapsJson(const std::vector<CallOutcome>& outcomes) {
  const auto gaps = SummarizeGaps(outcomes);
  return gaps ? ordered_json{{"count", gaps->count},
                             {"mean", gaps->mean},
                             {"p50", gaps->p50},
                             {"p90", gaps->p90},
                             {"max", gaps->max}}
              : ordered_json();
}

std::string GapsText(const std::vector<CallOutcome>& outcomes) {
  const auto gaps = SummarizeGaps(outcomes);
  return gaps ? "mean=" + Ms(gaps->mean) + " p50=" + Ms(gaps->p50) + " p90=" + Ms(gaps->p90) +
                    " max=" + Ms(gaps->max)
              : "-";
}

std::vector<double> FirstTokens(const std::vector<CallOutcome>& outcomes) {
  std::vector<double> times;
  for (const auto& outcome : outcomes) {
    if (!outcome.token_ms.empty()) {
      times.push_back(outcome.token_ms.front());
    }
  }
  return times;
}

std::string Padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string CallPrinter::Who(const CallOutcome& outcome) const {
  return several_ ? "[" + std::to_string(outcome.index) + "] " : "";
}

void CallPrinter::Targets(const FoundTargets& found) {
  std::size_t wide = std::string_view("ENDPOINT").size();
  std::size_t model_wide = std::string_view("MODEL").size();
  for (const auto& target : found.targets) {
    wide = std::max(wide, target.instance.name.Dotted().size());
    model_wide = std::max(model_wide, target.model.size());
  }
  constexpr std::size_t kIdWide = 16;
  if (!json_ && !found.targets.empty()) {
    Line(Padded("INSTANCE", kIdWide) + "  " + Padded("ENDPOINT", wide) + "  " +
         Padded("MODEL", model_wide) + "  PLANE     CODEC    DEVICE  ADDRESS");
  }
  for (const auto& target : found.targets) {
    const auto& i = target.instance;
    if (json_) {
      JsonLine({{"type", "instance"},
                {"instance", transport::HexId(i.instance_id)},
                {"instance_id", i.instance_id},
                {"endpoint", i.name.Dotted()},
                {"model", target.model},
                {"plane", i.transport_kind},
                {"address", i.transport_value},
                {"codec", i.request_plane_codec.value_or("json")},
                {"device", i.device_type.value_or("")}});
      continue;
    }
    Line(Padded(transport::HexId(i.instance_id), kIdWide) + "  " + Padded(i.name.Dotted(), wide) +
         "  " + Padded(target.model.empty() ? "-" : target.model, model_wide) + "  " +
         Padded(i.transport_kind, 8) + "  " + Padded(i.request_plane_codec.value_or("json"), 7) +
         "  " + Padded(i.device_type.value_or("-"), 6) + "  " + i.transport_value);
  }
  for (const auto& why : found.unreadable) {
    Note("unreadable record " + why);
  }
}

void CallPrinter::Sent(const CallOutcome& outcome, const CallTarget& target) {
  const auto& i = target.instance;
  if (json_) {
    JsonLine({{"type", "sent"},
              {"request", outcome.index},
              {"id", outcome.request_id},
              {"instance", transport::HexId(i.instance_id)},
              {"endpoint", i.name.Dotted()},
              {"address", i.transport_value},
              {"prompt_tokens", outcome.prompt_tokens}});
  } else if (!several_ || !quiet_) {
    Line(Who(outcome) + "request " + outcome.request_id + " to " + i.name.Dotted() + " " +
         transport::HexId(i.instance_id) + ", " + std::to_string(outcome.prompt_tokens) +
         " prompt tokens");
  }
}

void CallPrinter::Token(const CallOutcome& outcome, std::uint32_t token) {
  if (quiet_) {
    return;
  }
  const auto n = outcome.token_ms.size();
  std::optional<double> gap;
  if (n > 1) {
    gap = outcome.token_ms[n - 1] - outcome.token_ms[n - 2];
  }
  if (json_) {
    ordered_json line{{"type", "token"},
                      {"request", outcome.index},
                      {"n", n - 1},
                      {"token", token},
                      {"ms", outcome.token_ms.back()}};
    Put(line, "gap_ms", gap);
    JsonLine(line);
    return;
  }
  Line(Who(outcome) + "token n=" + std::to_string(n - 1) + " id=" + std::to_string(token) +
       " ms=" + Ms(outcome.token_ms.back()) + " gap_ms=" + Ms(gap));
}

void CallPrinter::Ended(const CallOutcome& outcome) {
  if (json_) {
    EndedJson(outcome);
  } else if (!several_ || !quiet_ || outcome.end != CallOutcome::End::kDone) {
    EndedText(outcome);
  }
}

void CallPrinter::EndedText(const CallOutcome& outcome) {
  const auto who = Who(outcome);
  Line(who + NameOf(outcome.end) + (outcome.text.empty() ? "" : ": " + outcome.text));
  Line(who + "  ack_ms=" + Ms(outcome.ack_ms) + " connected_ms=" + Ms(outcome.connected_ms) +
       " prologue_ms=" + Ms(outcome.prologue_ms) + " total_ms=" + Ms(outcome.total_ms));
  if (outcome.cancel_ms) {
    Line(who + "  cancel_ms=" + Ms(outcome.cancel_ms) + " closed_ms=" + Ms(outcome.closed_ms) +
         " tokens_after_cancel=" + std::to_string(outcome.tokens_after_cancel));
  }
  Line(who + "  tokens=" + std::to_string(outcome.token_ms.size()) +
       " finish_reason=" + outcome.finish_reason.value_or("-"));
  if (!outcome.token_ms.empty()) {
    Line(who + "  ttft_ms=" + Ms(outcome.token_ms.front()) +
         " inter_token_ms: " + GapsText({outcome}));
  }
  if (outcome.usage) {
    Line(who + "  usage: prompt_tokens=" + std::to_string(outcome.usage->prompt_tokens) +
         " completion_tokens=" + std::to_string(outcome.usage->completion_tokens) +
         " cached_tokens=" + std::to_string(outcome.usage->cached_tokens));
  }
}

void CallPrinter::EndedJson(const CallOutcome& outcome) {
  ordered_json line{{"type", "end"},
                    {"request", outcome.index},
                    {"id", outcome.request_id},
                    {"instance", transport::HexId(outcome.instance_id)},
                    {"outcome", NameOf(outcome.end)},
                    {"text", outcome.text},
                    {"tokens", outcome.token_ms.size()},
                    {"total_ms", outcome.total_ms}};
  Put(line, "ack_ms", outcome.ack_ms);
  Put(line, "connected_ms", outcome.connected_ms);
  Put(line, "prologue_ms", outcome.prologue_ms);
  if (!outcome.token_ms.empty()) {
    line["ttft_ms"] = outcome.token_ms.front();
  }
  if (outcome.token_ms.size() > 1) {
    line["inter_token_ms"] = GapsJson({outcome});
  }
  if (outcome.finish_reason) {
    line["finish_reason"] = *outcome.finish_reason;
  }
  if (outcome.usage) {
    line["usage"] = {{"prompt_tokens", outcome.usage->prompt_tokens},
                     {"completion_tokens", outcome.usage->completion_tokens},
                     {"cached_tokens", outcome.usage->cached_tokens}};
  }
  if (outcome.cancel_ms) {
    Put(line, "cancel_ms", outcome.cancel_ms);
    Put(line, "closed_ms", outcome.closed_ms);
    line["tokens_after_cancel"] = outcome.tokens_after_cancel;
  }
  JsonLine(line);
}

void CallPrinter::Total(const std::vector<CallOutcome>& outcomes, double wall_ms) {
  std::size_t tokens = 0;
  std::size_t good = 0;
  for (const auto& outcome : outcomes) {
    tokens += outcome.token_ms.size();
    good += outcome.end == CallOutcome::End::kDone || outcome.end == CallOutcome::End::kCancelled
                ? 1U
                : 0U;
  }
  const auto first = FirstTokens(outcomes);
  const auto p50 = Percentile(first, 0.5);
  const auto p90 = Percentile(first, 0.9);
  const auto most = Percentile(first, 1.0);
  if (json_) {
    ordered_json line{{"type", "total"},
                      {"requests", outcomes.size()},
                      {"good", good},
                      {"tokens", tokens},
                      {"wall_ms", wall_ms}};
    if (!first.empty()) {
      line["ttft_ms"] = {{"p50", *p50}, {"p90", *p90}, {"max", *most}};
      line["inter_token_ms"] = GapsJson(outcomes);
    }
    JsonLine(line);
  } else if (several_) {
    Line("total requests=" + std::to_string(outcomes.size()) + " good=" + std::to_string(good) +
         " bad=" + std::to_string(outcomes.size() - good) + " tokens=" + std::to_string(tokens) +
         " wall_ms=" + Ms(wall_ms));
    Line("  ttft_ms: p50=" + Ms(p50) + " p90=" + Ms(p90) + " max=" + Ms(most));
    Line("  inter_token_ms: " + GapsText(outcomes));
  }
}

void CallPrinter::Event(std::string_view subject, std::string_view bytes) {
  Line(json_ ? DescribeEventJson(subject, bytes) : DescribeEvent(subject, bytes));
}

void CallPrinter::Note(const std::string& text) {
  if (json_) {
    JsonLine({{"type", "note"}, {"text", text}});
  } else {
    std::fprintf(stderr, "understudy call: note: %s\n", text.c_str());
  }
}

}  // namespace understudy::worker
