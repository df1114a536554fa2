// Command-line flags of one subcommand. Hides CLI11, whose header costs seconds of compile time per
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace understudy::worker {

class FlagSet {
 public:
  /// `name` is what usage lines call the program, for example "understudy worker".
  FlagSet(const std::string& name, const std::string& description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // `flag` is "--long-name" (or "-s,--long-name"); `*value` holds the default and gets what was
  // given. `allowed` empty = any text.
  void Text(const std::string& flag,
            std::string* value,
            const std::string& help,
            std::vector<std::string> allowed = {});
  void Text(const std::string& flag,
            std::optional<std::string>* value,
            const std::string& help,
            std::vector<std::string> allowed = {});
  void Integer(const std::string& flag, std::int64_t* value, const std::string& help);
  void Integer(const std::string& flag,
               std::optional<std::int64_t>* value,
               const std::string& help);
  void Real(const std::string& flag, double* value, const std::string& help);
  void Real(const std::string& flag, std::optional<double>* value, const std::string& help);
  /// A whole number of 0 or more, up to 2^64 - 1; another one is a usage error.
  void Count(const std::string& flag, std::uint64_t* value, const std::string& help);
  void Count(const std::string& flag, std::optional<std::uint64_t>* value, const std::string& help);
  /// A number of 0 or more; another one is a usage error.
  void Amount(const std::string& flag, std::optional<double>* value, const std::string& help);
  /// Presence sets `*value` to true; with `negation` ("--no-x") that flag sets it to false.
  void Switch(const std::string& flag,
              bool* value,
              const std::string& help,
              const std::string& negation = {});
  /// A flag of the reference worker that this version does not serve: giving it is an error that
  /// says so.
  void Refused(const std::string& flag, const std::string& reason);
  /// A heading for the flags that follow.
  void Group(const std::string& name);
  void Footer(const std::string& text);

  struct Outcome {
    bool proceed = false;
    int exit_code = 0;  ///< 0 after --help, 2 after a usage error (already printed)
  };
  /// `arguments` without the program and subcommand names.
  [[nodiscard]] Outcome Parse(std::vector<std::string> arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace understudy::worker
