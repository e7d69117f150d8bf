// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace hvd {

/// A thread that runs `body`; kSystem with a remedy where there is no room for one.
template <typename Body>
Result<std::thread> start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    return Status::system("cannot start a thread; check `ulimit -u` and `ulimit -v`",
                          failure.code().value());
  }
}

}  // namespace hvd
