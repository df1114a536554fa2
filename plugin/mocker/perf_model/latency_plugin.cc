#include "plugin/mocker/perf_model/latency_plugin.h"

#include "plugin/mocker/perf_model/grid.h"
#include "plugin/mocker/perf_model/number_text.h"
#include "understudy/mocker/latency_model_abi.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <utility>

namespace understudy::mocker {

namespace {

using Table = understudy_latency_model_v1;

constexpr std::size_t kErrorBytesMax = 512;

/// False for NaN.
bool IsTime(double ms) {
  return ms >= 0.0 && ms <= kGridMsMax;
}

tl::unexpected<Error> Bad(const std::string& path, const std::string& what) {
  return Fail(Errc::kInvalidConfig, path + ": " + what);
}

class LatencyPlugin final : public PerfModel {
 public:
  LatencyPlugin(const Table& table, understudy_latency_model* model)
      : table_(table), model_(model) {}
  ~LatencyPlugin() override { table_.destroy(model_); }
  LatencyPlugin(const LatencyPlugin&) = delete;
  LatencyPlugin& operator=(const LatencyPlugin&) = delete;

  [[nodiscard]] double PrefillMs(const PrefillBatch& batch) const override {
    const MeanPrefill mean = MeanOf(batch);
    return mean.new_tokens == 0 ? 0.0 : Usable(Ask(mean), 0.0);
  }
  [[nodiscard]] double DecodeMs(const DecodeBatch& batch) const override {
    return batch.requests == 0 ? 0.0 : std::max(kDecodeMsMin, Usable(Ask(batch), kDecodeMsMin));
  }
  [[nodiscard]] std::uint64_t bad_results() const override {
    return bad_results_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] double Ask(const MeanPrefill& mean) const {
    const understudy_latency_prefill question{.struct_size = sizeof(question),
                                              .reserved = 0,
                                              .requests = mean.requests,
                                              .new_tokens = mean.new_tokens,
                                              .cached_tokens = mean.cached_tokens};
    return table_.prefill_ms(model_, &question);
  }
  [[nodiscard]] double Ask(const DecodeBatch& batch) const {
    const understudy_latency_decode question{.struct_size = sizeof(question),
                                             .reserved = 0,
                                             .requests = batch.requests,
                                             .active_tokens = batch.active_tokens,
                                             .context_tokens = batch.context_tokens,
                                             .total_tokens = batch.total_tokens};
    return table_.decode_ms(model_, &question);
  }

 private:
  [[nodiscard]] double Usable(double ms, double otherwise) const {
    if (IsTime(ms)) {
      return ms;
    }
    bad_results_.fetch_add(1, std::memory_order_relaxed);
    return otherwise;
  }

  const Table& table_;
  understudy_latency_model* const model_;
  mutable std::atomic<std::uint64_t> bad_results_{0};
};

Status CheckTable(const std::string& path, const Table* table) {
  if (table == nullptr) {
    return Bad(path, std::string(UNDERSTUDY_LATENCY_MODEL_ENTRY) + " returned null");
  }
  // These are in every version, so that a table of another one can be told from a broken one.
  constexpr std::size_t kHeadBytes = offsetof(Table, create);
  if (table->struct_size >= kHeadBytes && table->abi_major != UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR) {
    return Bad(path,
               "built for version " + std::to_string(table->abi_major) +
                   " of latency_model_abi.h, this is version " +
                   std::to_string(UNDERSTUDY_LATENCY_MODEL_ABI_MAJOR));
  }
  if (table->struct_size < sizeof(Table)) {
    return Bad(path,
               "table of " + std::to_string(table->struct_size) + " bytes, at least " +
                   std::to_string(sizeof(Table)) + " are needed");
  }
  if (table->abi_minor > UNDERSTUDY_LATENCY_MODEL_ABI_MINOR) {
    return Bad(path,
               "built for version 1." + std::to_string(table->abi_minor) +
                   " of latency_model_abi.h, this is version 1." +
                   std::to_string(UNDERSTUDY_LATENCY_MODEL_ABI_MINOR));
  }
  const std::pair<const char*, bool> entries[] = {{"create", table->create != nullptr},
                                                  {"destroy", table->destroy != nullptr},
                                                  {"prefill_ms", table->prefill_ms != nullptr},
                                                  {"decode_ms", table->decode_ms != nullptr}};
  for (const auto& [name, is_set] : entries) {
    if (!is_set) {
      return Bad(path, std::string("its function ") + name + " is null");
    }
  }
  return {};
}

Result<std::unique_ptr<LatencyPlugin>> Create(const std::string& path,
                                              const Table& table,
                                              std::string_view config) {
  char error[kErrorBytesMax] = "";
  understudy_latency_model* model = nullptr;
  const std::int32_t code =
      table.create(config.data(), config.size(), &model, error, sizeof(error));
  error[sizeof(error) - 1] = '\0';
  if (code != 0) {
    return Bad(path,
               "refused by the plugin (code " + std::to_string(code) +
                   "): " + (error[0] == '\0' ? "no text" : error));
  }
  if (model == nullptr) {
    return Bad(path, "create returned 0 but no model");
  }
  return std::make_unique<LatencyPlugin>(table, model);
}

/// One question of each kind that every model must be able to answer.
Status Probe(const std::string& path, const LatencyPlugin& plugin) {
  const std::pair<const char*, double> answers[] = {
      {"prefill_ms", plugin.Ask(MeanPrefill{1, 128, 0})},
      {"decode_ms", plugin.Ask(DecodeBatch{1, 128, 128, 65536})}};
  for (const auto& [name, ms] : answers) {
    if (!IsTime(ms)) {
      return Bad(path,
                 std::string(name) + " answered " + NumberText(ms) +
                     " to a request of 128 tokens, " + "allowed is 0 to " + NumberText(kGridMsMax) +
                     " ms");
    }
  }
  return {};
}

/// The entry function's table, of a shared object that stays open when it is found.
Result<const Table*> OpenTable(const std::string& path) {
  std::error_code error;
  // A name without a slash would be looked up in the system's library folders.
  const std::string absolute = std::filesystem::absolute(path, error).string();
  if (error || !std::filesystem::is_regular_file(absolute, error)) {
    return Bad(path, "no such file");
  }
  void* object = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
    return Bad(path,
               std::string("cannot be loaded: ") + (why == nullptr ? "no reason given" : why));
  }
  void* symbol = dlsym(object, UNDERSTUDY_LATENCY_MODEL_ENTRY);
  if (symbol == nullptr) {
    dlclose(object);
    return Bad(path, "exports no function " + std::string(UNDERSTUDY_LATENCY_MODEL_ENTRY));
  }
  const auto entry = reinterpret_cast<understudy_latency_model_entry_fn>(symbol);
  const Table* table = entry();
  if (auto checked = CheckTable(path, table); !checked) {
    dlclose(object);
    return tl::make_unexpected(std::move(checked).error());
  }
  return table;
}

}  // namespace

Result<std::unique_ptr<PerfModel>> LoadLatencyPlugin(const std::string& path,
                                                     std::string_view config) {
  UNDERSTUDY_TRY(const Table* table, OpenTable(path));
  // From here on the object stays loaded: it may have started something.
  UNDERSTUDY_TRY(std::unique_ptr<LatencyPlugin> plugin, Create(path, *table, config));
  UNDERSTUDY_TRY_STATUS(Probe(path, *plugin));
  return plugin;
}

}  // namespace understudy::mocker
