#include "plugin/mocker/config/accept_rates.h"

#include "plugin/mocker/config/value_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace understudy::mocker {

namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";
constexpr std::array kDefaultRates = {0.85, 0.3};

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Between the commas.
std::vector<std::string_view> Items(std::string_view list) {
  std::vector<std::string_view> items;
  for (auto comma = list.find(','); comma != std::string_view::npos; comma = list.find(',')) {
    items.push_back(list.substr(0, comma));
    list.remove_prefix(comma + 1);
  }
  items.push_back(list);
  return items;
}

bool IsDecimal(std::string_view text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;
    }
    return at > start;
  };
  bool digits = skip_digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    digits = skip_digits() || digits;
  }
  if (digits && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      ++at;
    }
    digits = skip_digits();
  }
  return digits && at == text.size();
}

/// The numbers that Rust reads: decimal, without hexadecimal forms; inf, infinity and nan in any
/// case.
std::optional<double> ParseNumber(std::string_view text) {
  const bool sign = text.starts_with('+') || text.starts_with('-');
  std::string word(text.substr(sign ? 1 : 0));
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (!IsDecimal(word) && word != "inf" && word != "infinity" && word != "nan") {
    return std::nullopt;
  }
  const double value = std::strtod(word.c_str(), nullptr);
  return text.starts_with('-') ? -value : value;
}

}  // namespace

Result<std::vector<double>> ParseAcceptRates(std::optional<std::string_view> text,
                                             std::size_t drafts) {
  const std::string_view list = Trimmed(text.value_or(""));
  std::vector<double> rates;
  if (list.empty()) {
    rates.assign(kDefaultRates.begin(), kDefaultRates.end());
  } else {
    for (const std::string_view item : Items(list)) {
      const auto rate = ParseNumber(Trimmed(item));
      if (!rate) {
        return Fail(Errc::kInvalidConfig,
                    "invalid aic_nextn_accept_rates value " + QuotedText(item) +
                        (Trimmed(item).empty() ? ": cannot parse float from empty string"
                                               : ": invalid float literal"));
      }
      rates.push_back(*rate);
    }
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!(rates[i] >= 0.0 && rates[i] <= 1.0)) {
      return Fail(Errc::kInvalidConfig,
                  "aic_nextn_accept_rates[" + std::to_string(i) +
                      "] must be finite and in [0, 1], got " + PlainNumber(rates[i]));
    }
  }
  rates.resize(drafts, 0.0);
  return rates;
}

std::string AcceptRatesText(const std::vector<double>& rates) {
  std::string text;
  for (const double rate : rates) {
    text += (text.empty() ? "" : ",") + PlainNumber(rate);
  }
  return text;
}

}  // namespace understudy::mocker
