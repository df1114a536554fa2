#include "plugin/mocker/perf_model/fixed_model.h"

#include <charconv>
#include <cmath>

namespace understudy::mocker {

namespace {

bool ReadMs(const char*& at, const char* end, double& out) {
  const auto parsed = std::from_chars(at, end, out);
  at = parsed.ptr;
  return parsed.ec == std::errc() && std::isfinite(out) && out >= 0.0;
}

/// The shortest text that reads back as the same number.
std::string TextOfMs(double ms) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), ms).ptr};
}

}  // namespace

double FixedModel::PrefillMs(const PrefillBatch& batch) const {
  return MeanOf(batch).new_tokens == 0 ? 0.0 : prefill_ms_;
}

double FixedModel::DecodeMs(const DecodeBatch& batch) const {
  return batch.requests == 0 ? 0.0 : decode_ms_;
}

std::string FixedModel::TextOf(double prefill_ms, double decode_ms) {
  return std::string(kPrefix) + TextOfMs(prefill_ms) + "," + TextOfMs(decode_ms);
}

Result<std::unique_ptr<PerfModel>> FixedModel::Parse(const std::string& text) {
  const char* at = text.data() + kPrefix.size();
  const char* end = text.data() + text.size();
  double prefill_ms = 0.0;
  double decode_ms = 0.0;
  const bool first = ReadMs(at, end, prefill_ms) && at != end && *at == ',';
  if (!first || !ReadMs(++at, end, decode_ms) || at != end) {
    return Fail(Errc::kInvalidConfig,
                text + ": expected fixed:PREFILL_MS,DECODE_MS, two numbers of 0 or more");
  }
  return std::make_unique<FixedModel>(prefill_ms, decode_ms);
}

}  // namespace understudy::mocker
