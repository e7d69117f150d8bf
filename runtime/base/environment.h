// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hvd {

/// A set of environment variables, read once at the edge so that decisions stay pure.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}
  static Environment of_process();

  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return variables_.find(name) != variables_.end(); }
  /// Absent or empty, as `export NAME=$OTHER` may leave it: nothing. Not a whole decimal number in
  /// [lowest, highest]: kInvalidArgument naming the variable, its value and the range.
  Result<std::optional<long long>> get_int(std::string_view name, long long lowest,
                                           long long highest) const;
  void set(std::string name, std::string value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
  }
  void unset(std::string_view name);
  const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace hvd
