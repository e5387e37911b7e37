// Status and Result: how failures of the outside world (files, requests, peers, options) are returned.
// Programmer mistakes are not Status but CHECK (base/check.h). Any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace winnow {

// The value of each code is the exit code of the program (docs/architecture.md lists them).
enum class StatusCode : int {
  kOk = 0,
  kInternal = 1,         // a bug of ours
  kInvalidArgument = 2,  // bad option, impossible combination, world-size mismatch
  kBadFile = 3,          // model, tokenizer, policy or checkpoint file is bad or unreadable
  kOutOfMemory = 4,      // memory or KV pages do not suffice
  kPeerLost = 5,         // a rank is gone or did not answer in time
  kNumerical = 6,        // NaN or a sum out of range
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() {
  return {};
}
inline Status InternalError(std::string m) {
  return {StatusCode::kInternal, std::move(m)};
}
inline Status InvalidArgument(std::string m) {
  return {StatusCode::kInvalidArgument, std::move(m)};
}
inline Status BadFile(std::string m) {
  return {StatusCode::kBadFile, std::move(m)};
}
inline Status OutOfMemory(std::string m) {
  return {StatusCode::kOutOfMemory, std::move(m)};
}
inline Status PeerLost(std::string m) {
  return {StatusCode::kPeerLost, std::move(m)};
}
inline Status NumericalError(std::string m) {
  return {StatusCode::kNumerical, std::move(m)};
}

// Either a value or a Status that is not ok.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                        // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) { WINNOW_CHECK(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    WINNOW_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    WINNOW_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    WINNOW_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

// Returns the Status of `expression` from the enclosing function unless it is ok.
#define WINNOW_RETURN_IF_ERROR(expression)                                                                             \
  do {                                                                                                                 \
    if (::winnow::Status status_of_expression = (expression); !status_of_expression.ok()) return status_of_expression; \
  } while (false)

#define WINNOW_CONCAT_INNER(a, b) a##b
#define WINNOW_CONCAT(a, b) WINNOW_CONCAT_INNER(a, b)
// WINNOW_ASSIGN_OR_RETURN(auto x, MakeX()); declares x or returns the error.
#define WINNOW_ASSIGN_OR_RETURN(declaration, expression) \
  WINNOW_ASSIGN_OR_RETURN_INNER(WINNOW_CONCAT(result_, __LINE__), declaration, expression)
#define WINNOW_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()

}  // namespace winnow
