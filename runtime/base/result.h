// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace hvd {

/// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    HVD_CHECK(!status_.is_ok());
  }

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    HVD_CHECK(is_ok());
    return *value_;
  }
  const T& value() const& {
    HVD_CHECK(is_ok());
    return *value_;
  }
  T&& value() && {
    HVD_CHECK(is_ok());
    return *std::move(value_);
  }
  T value_or(T fallback) const { return value_.value_or(std::move(fallback)); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace hvd

#define HVD_CONCAT_INNER(a, b) a##b
#define HVD_CONCAT(a, b) HVD_CONCAT_INNER(a, b)

/// `HVD_TRY_ASSIGN(auto x, f());` declares x with the value of f(), or returns its Status.
#define HVD_TRY_ASSIGN(declaration, expression) \
  HVD_TRY_ASSIGN_INNER(HVD_CONCAT(hvd_result_, __LINE__), declaration, expression)
#define HVD_TRY_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                 \
  if (!result.is_ok()) return result.status();                \
  declaration = std::move(result).value()
