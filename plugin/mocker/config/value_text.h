// Values as the reference prints them in its messages.
#pragma once

#include <string>
#include <string_view>

namespace understudy::mocker {

/// Shortest digits that read back as the same number, as serde_json writes them: `1000.0`, `0.001`,
/// and with an exponent from 1e16 up and below 1e-5: `1e+16`, `1.5e-7`. `value` is finite.
[[nodiscard]] std::string JsonNumber(double value);

/// The same digits without an exponent and without a needless point: `1000`, `0.00000015`; `inf`,
/// `-inf`, `NaN`.
[[nodiscard]] std::string PlainNumber(double value);

/// In double quotes, with quotes, backslashes and control characters escaped.
[[nodiscard]] std::string QuotedText(std::string_view text);

/// With control characters escaped, so that a message stays one line whatever it quotes.
[[nodiscard]] std::string OneLine(std::string_view text);

}  // namespace understudy::mocker
