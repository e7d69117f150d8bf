// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// The pipe on which the ranks say whom they lost (launch_env::kLossPipe).
class LossPipe {
 public:
  struct Loss {
    int by = 0;
    int lost = 0;
  };

  static Result<LossPipe> create();

  const std::string& name() const { return name_; }
  /// Readable when there is something to read.
  int reader() const { return reader_.get(); }
  /// The ranks have inherited their end.
  void close_writer() { writer_.reset(); }
  /// What the ranks said since the last call, at most 64 KiB of it; never waits. What is no such
  /// line is passed over: any program below may write here.
  std::vector<Loss> read();

 private:
  void take(std::string_view text, std::vector<Loss>& losses);

  UniqueFd reader_;
  UniqueFd writer_;
  std::string name_;
  std::string partial_;  ///< A line whose end is not there yet, as far as it may be valid.
};

}  // namespace hvd
