// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/wiring.h"
#include "collective/backend.h"

namespace hvd {

/// One rank of a test: a thread with its end of the wiring and its backend.
struct ThreadRank {
  Wiring wiring;
  Communicator communicator;
  std::unique_ptr<Backend> backend;
};

/// Wires the ranks, creates `entry`'s backend on each, and runs `body` once per rank, each in a
/// thread of its own. `sockets`: as Wiring::sockets.
void run_ranks(const BackendEntry& entry, const std::vector<int>& node_sizes,
               const std::function<void(ThreadRank&)>& body, int sockets = 1);

/// Advances the tasks in turn until all are done; a failure or 60 seconds fail the test.
void finish(std::vector<std::unique_ptr<Task>>& tasks);
/// Starts one batch and finishes it.
void run_batch(ThreadRank& rank, Batch batch);

/// "2+1+1": for test names and messages.
std::string shape_text(const std::vector<int>& node_sizes);

}  // namespace hvd
