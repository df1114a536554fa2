// Engine arguments of either release, from flags, JSON or a file, on their way to their checks.
#pragma once

#include "understudy/base/result.h"
#include "understudy/mocker/engine_args.h"
#include "understudy/mocker/engine_config.h"
#include "worker/config/engine_flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace understudy::worker {

/// Whose engine is simulated, and the flag by which an operator chooses it.
struct EngineRelease {
  mocker::SemanticsRelease semantics = mocker::SemanticsRelease::k16;
  const char* flag = "--engine-semantics";
};

/// Of `--dynamo-release`, when no other engine is asked for: the newest engine unless only routers
/// of 1.3 are spoken to.
[[nodiscard]] inline mocker::SemanticsRelease SemanticsOf(std::string_view release) {
  return release == "1.3" ? mocker::SemanticsRelease::k13 : mocker::SemanticsRelease::k16;
}

class EngineInput {
 public:
  /// Errors: as ArgumentsOf, ConfigOf.
  [[nodiscard]] static Result<EngineInput> OfFlags(const EngineFlags& flags,
                                                   const EngineRelease& release,
                                                   const std::optional<std::string>& model);
  /// Errors: kInvalidConfig; a text in the other release's form is told which one is meant, and how
  /// to get it.
  [[nodiscard]] static Result<EngineInput> OfJson(std::string_view json,
                                                  const EngineRelease& release);

  /// Unless it says one itself.
  void SetWorkerType(mocker::WorkerType type);
  void SetKvBytesPerToken(std::uint64_t bytes);

  /// The release's checks. Errors: kInvalidConfig, one line; of flags with the flag behind it.
  [[nodiscard]] Result<mocker::EngineArgs> Check() const;

 private:
  using Arguments = std::variant<mocker::EngineArguments, mocker::EngineConfig>;

  EngineInput(Arguments arguments, bool of_flags)
      : arguments_(std::move(arguments)), of_flags_(of_flags) {}

  Arguments arguments_;
  bool of_flags_;
  std::vector<std::string> warnings_;
};

/// kInvalidConfig when `args` want a performance model that is not here and `args` have no latency
/// model in its place; `wanted_by` begins the text.
[[nodiscard]] Status CheckPerfModel(const mocker::EngineArgs& args, const std::string& wanted_by);

/// All of it: `flags`, or instead the file that they name; what is known of the model in the folder
/// `model`. A file replaces all flags but --kv-bytes-per-token and those that its JSON cannot hold
/// (--latency-model). Reads files. Errors: kInvalidConfig, one line with flag, file, field and
/// value, in the reference's words where it has some.
[[nodiscard]] Result<mocker::EngineArgs> LoadEngineArgs(const EngineFlags& flags,
                                                        const EngineRelease& release,
                                                        const std::optional<std::string>& model);

}  // namespace understudy::worker
