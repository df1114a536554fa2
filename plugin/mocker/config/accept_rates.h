// How the acceptance rates of speculative decoding are written.
#pragma once

#include "understudy/base/result.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy::mocker {

/// `text` is a comma list of rates, the i-th being the probability that draft token i is accepted
/// when all before it were; blank or absent = 0.85,0.3,0,0,0. Gives back exactly `drafts` (1..5)
/// rates: cut, or padded with 0. Errors (kInvalidConfig): one that is no number, or outside [0, 1],
/// also among those that are cut. Source: dynamo-mocker 1.3.0 speculative.rs.
[[nodiscard]] Result<std::vector<double>> ParseAcceptRates(std::optional<std::string_view> text,
                                                           std::size_t drafts);

/// The normalised list: `0.85,0.3,0`.
[[nodiscard]] std::string AcceptRatesText(const std::vector<double>& rates);

}  // namespace understudy::mocker
