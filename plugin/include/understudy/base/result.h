// Result<T>: a value, or an error that says what the caller should do about it.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace understudy {

/// What the caller does: feed more or drop (kTruncated), refuse the input (kMalformed,
/// kUnsupported), retry later (kUnavailable, kTimeout, kOverloaded), stop quietly (kCancelled),
/// exit at start (kInvalidConfig), report (kInternal).
enum class Errc {
  kTruncated,
  kMalformed,
  kUnsupported,
  kUnavailable,
  kTimeout,
  kCancelled,
  kOverloaded,
  kInvalidConfig,
  kInternal,
};

/// `message` says what, where and the value seen; it is shown to peers and operators as it is.
struct [[nodiscard]] Error {
  Errc code = Errc::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Fail(Errc code, std::string message) {
  return tl::make_unexpected(Error{code, std::move(message)});
}

/// Puts `context: ` before the message on the way up.
inline tl::unexpected<Error> FailWith(const std::string& context, const Error& error) {
  return tl::make_unexpected(Error{error.code, context + ": " + error.message});
}

}  // namespace understudy

// NOLINTBEGIN(bugprone-macro-parentheses): declarations and names cannot stand in parentheses
#define UNDERSTUDY_CONCAT_(a, b) a##b
#define UNDERSTUDY_CONCAT(a, b) UNDERSTUDY_CONCAT_(a, b)

/// UNDERSTUDY_TRY(auto head, ParseFrameHead(bytes)); returns the error of the enclosing function,
/// or declares `head`.
#define UNDERSTUDY_TRY(declaration, expression) \
  UNDERSTUDY_TRY_(UNDERSTUDY_CONCAT(try_result_, __LINE__), declaration, expression)
#define UNDERSTUDY_TRY_(result, declaration, expression)     \
  auto result = (expression);                                \
  if (!result) {                                             \
    return ::tl::make_unexpected(std::move(result).error()); \
  }                                                          \
  declaration = std::move(*result)

/// The same for a Status.
#define UNDERSTUDY_TRY_STATUS(expression)                        \
  if (auto try_status = (expression); !try_status) {             \
    return ::tl::make_unexpected(std::move(try_status).error()); \
  }
// NOLINTEND(bugprone-macro-parentheses)
