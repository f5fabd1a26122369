// Results of code that must not throw: parsers of bytes from outside, and protocol state machines.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {

struct Failure {
  ErrorCode code;
  std::string message;

  [[noreturn]] void Throw() const { throw Error(code, message); }
  bool operator==(const Failure&) const = default;
};

// Returns what an exception says; `error` is not null.
inline Failure FailureOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what()};
  } catch (const std::exception& other) {
    return {ErrorCode::kUnavailable, other.what()};
  }
}

template <typename... Args>
Failure Fail(ErrorCode code, const Args&... args) {
  return Failure{code, StrCat(args...)};
}

// A value, or the failure that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose, so that `return value;` reads well.
  Result(T value) : state_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Result(Failure failure) : state_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)
  // Constructs the value in place, for a type that is expensive to move.
  explicit Result(std::in_place_t) : state_(std::in_place_index<0>) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    SLUICE_CHECK(ok()) << failure().message;
    return std::get<0>(state_);
  }
  const T& value() const& {
    SLUICE_CHECK(ok()) << failure().message;
    return std::get<0>(state_);
  }
  T&& value() && {
    SLUICE_CHECK(ok()) << failure().message;
    return std::get<0>(std::move(state_));
  }
  const Failure& failure() const { return std::get<1>(state_); }
  // Returns the value; throws a failure as sluice::Error.
  T OrThrow() && {
    if (!ok()) failure().Throw();
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

// Success, or the failure that says why not.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)
  static Status Ok() { return Status(); }
  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Failure& failure() const { return *failure_; }
  void OrThrow() const {
    if (failure_) failure_->Throw();
  }
  // Returns the sluice::Error that OrThrow would throw; null for success.
  std::exception_ptr AsException() const {
    return failure_ ? std::make_exception_ptr(Error(failure_->code, failure_->message)) : nullptr;
  }

 private:
  std::optional<Failure> failure_;
};

}  // namespace sluice
