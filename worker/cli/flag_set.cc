#include "worker/cli/flag_set.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

namespace understudy::worker {

struct FlagSet::Impl {
  explicit Impl(const std::string& description, const std::string& name) : app(description, name) {}

  template <class T>
  CLI::Option* Add(const std::string& flag, T* value, const std::string& help) {
    auto* option = app.add_option(flag, *value, help)->group(group);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    return option;
  }

  CLI::App app;
  std::string group = "Options";
  std::map<std::string, std::pair<CLI::Option*, std::string>> refused;
  std::map<std::string, std::vector<std::string>> sinks;
};

namespace {

template <class T>
void ShowDefault(CLI::Option* option, const std::optional<T>& value) {
  if (value) {
    option->default_str(CLI::detail::to_string(*value));
  }
}

void Restrict(CLI::Option* option, std::vector<std::string> allowed) {
  if (!allowed.empty()) {
    option->check(CLI::IsMember(std::move(allowed)));
  }
}

std::string NegativeError(const std::string& text) {
  return text.starts_with('-') ? "must be non-negative, got " + text : std::string();
}

CLI::Validator NonNegative() {
  return {NegativeError, ""};
}

/// CLI11 takes numbers over the limit for the limit.
CLI::Validator WholeNumber() {
  return {[](const std::string& text) {
            std::uint64_t number = 0;
            const char* end = text.data() + text.size();
            const auto parsed = std::from_chars(text.data(), end, number);
            if (parsed.ec == std::errc() && parsed.ptr == end) {
              return std::string();
            }
            const auto negative = NegativeError(text);
            return negative.empty()
                       ? "must be a whole number up to " +
                             std::to_string(std::numeric_limits<std::uint64_t>::max()) + ", got " +
                             text
                       : negative;
          },
          ""};
}

}  // namespace

FlagSet::FlagSet(const std::string& name, const std::string& description)
    : impl_(std::make_unique<Impl>(description, name)) {
  impl_->app.get_formatter()->column_width(34);
}
FlagSet::~FlagSet() = default;

void FlagSet::Text(const std::string& flag,
                   std::string* value,
                   const std::string& help,
                   std::vector<std::string> allowed) {
  auto* option = impl_->Add(flag, value, help);
  if (!value->empty()) {
    option->default_str(*value);
  }
  Restrict(option, std::move(allowed));
}
void FlagSet::Text(const std::string& flag,
                   std::optional<std::string>* value,
                   const std::string& help,
                   std::vector<std::string> allowed) {
  auto* option = impl_->Add(flag, value, help);
  ShowDefault(option, *value);
  Restrict(option, std::move(allowed));
}
void FlagSet::Integer(const std::string& flag, std::int64_t* value, const std::string& help) {
  impl_->Add(flag, value, help)->capture_default_str();
}
void FlagSet::Integer(const std::string& flag,
                      std::optional<std::int64_t>* value,
                      const std::string& help) {
  ShowDefault(impl_->Add(flag, value, help), *value);
}
void FlagSet::Real(const std::string& flag, double* value, const std::string& help) {
  impl_->Add(flag, value, help)->capture_default_str();
}
void FlagSet::Real(const std::string& flag, std::optional<double>* value, const std::string& help) {
  ShowDefault(impl_->Add(flag, value, help), *value);
}
void FlagSet::Count(const std::string& flag, std::uint64_t* value, const std::string& help) {
  impl_->Add(flag, value, help)->capture_default_str()->check(WholeNumber());
}
void FlagSet::Count(const std::string& flag,
                    std::optional<std::uint64_t>* value,
                    const std::string& help) {
  impl_->Add(flag, value, help)->check(WholeNumber());
}
void FlagSet::Amount(const std::string& flag,
                     std::optional<double>* value,
                     const std::string& help) {
  impl_->Add(flag, value, help)->check(NonNegative());
}
void FlagSet::Switch(const std::string& flag,
                     bool* value,
                     const std::string& help,
                     const std::string& negation) {
  const auto names = negation.empty() ? flag : flag + ",!" + negation;
  impl_->app
      .add_flag(names, *value, help + (negation.empty() ? "" : " (" + negation + " turns it off)"))
      ->group(impl_->group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void FlagSet::Refused(const std::string& flag, const std::string& reason) {
  auto& sink = impl_->sinks[flag];
  auto* option = impl_->app.add_option(flag, sink, reason)->expected(0, 1)->group("");
  impl_->refused[flag] = {option, reason};
}

void FlagSet::Group(const std::string& name) {
  impl_->group = name;
}
void FlagSet::Footer(const std::string& text) {
  impl_->app.footer(text);
}

FlagSet::Outcome FlagSet::Parse(std::vector<std::string> arguments) {
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    impl_->app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    std::cout << impl_->app.help();
    return {false, 0};
  } catch (const CLI::ParseError& error) {
    std::cerr << impl_->app.get_name() << ": error: " << error.what() << "\nTry "
              << impl_->app.get_name() << " --help\n";
    return {false, 2};
  }
  for (const auto& [flag, entry] : impl_->refused) {
    if (entry.first->count() > 0) {
      std::cerr << impl_->app.get_name() << ": error: " << flag << ": " << entry.second << "\n";
      return {false, 2};
    }
  }
  return {true, 0};
}

}  // namespace understudy::worker
