// What originals said to each other during hand-offs, from tests/vectors/disagg.
#pragma once

#include "understudy/transport/bootstrap_frame.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace understudy::worker::golden {

using Json = nlohmann::ordered_json;

/// One frame, or the end of one direction, in the order in which a proxy saw them.
struct Step {
  double t_ms = 0.0;  ///< since the connection was opened
  bool from_decode = false;
  bool end = false;
  std::string bytes;
  transport::BootstrapMessage message;
};

/// One connection between a prefill and a decode worker, and what their requests heard.
struct Exchange {
  transport::BootstrapIdentity identity;
  transport::BootstrapRegister registration;
  std::string opening;      ///< bytes of header and registration
  std::vector<Step> steps;  ///< after the registration
  std::string prefill_told;
  std::string decode_told;

  [[nodiscard]] const transport::BootstrapFact* FactOf(transport::BootstrapFact::Kind kind) const;
};

/// `name` without folder and ending.
[[nodiscard]] Exchange LoadExchange(const std::string& name);

/// How a response ended: "" = well, the text of its error, "cut off" = neither. `frames` have a
/// body or body_text each.
[[nodiscard]] std::string EndingOf(const Json& frames);

/// A message without its envelope.
[[nodiscard]] transport::BootstrapMessage MessageOf(const Json& json);

}  // namespace understudy::worker::golden
