// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/node/byte_stream.h"
#include "backends/node/node_plane.h"
#include "collective/backend.h"

namespace hvd {

/// Bytes that flow from one or more roots to everybody: a broadcast has one root with bytes, an
/// allgather has all. Indices are ranks of the communicator.
struct RootedPlan {
  std::vector<std::size_t> bytes;   ///< By root; equal on every rank.
  ByteStream input;                 ///< My own bytes.
  std::vector<ByteStream> outputs;  ///< By root: where its bytes go here, mine included.
  bool own_in_place = false;        ///< My bytes are already where outputs[me] says.
};

/// Cuts a plan into rounds of at most a slot, root after root.
/// Immutable after construction.
class RootedRounds {
 public:
  explicit RootedRounds(const std::vector<std::size_t>& bytes);
  struct Round {
    int root;
    std::size_t offset;
    std::size_t bytes;
  };
  Round at(std::uint64_t round) const;
  std::uint64_t count() const { return first_.back(); }

 private:
  std::vector<std::size_t> bytes_;
  std::vector<std::uint64_t> first_;  // by root, and the total at the end
};

/// Bytes on their way by one plan.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual Progress advance() = 0;
  virtual const Status& status() const = 0;
};

/// Starts a transfer; called when the plan's task is at the head.
using RootedTransferFactory = std::function<std::unique_ptr<Transfer>(RootedPlan plan)>;

/// A transfer within one node.
std::unique_ptr<Transfer> start_node_transfer(NodePlane& plane, RootedPlan plan);

/// A broadcast over such a transfer.
std::unique_ptr<Task> make_broadcast_task(NodePlane& plane, const Communicator& communicator,
                                          Batch batch, RootedTransferFactory factory);

}  // namespace hvd
