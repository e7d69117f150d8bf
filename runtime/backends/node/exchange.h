// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "backends/node/byte_stream.h"
#include "backends/node/node_plane.h"
#include "backends/node/rooted.h"
#include "base/result.h"

namespace hvd {

/// Bytes that flow from every rank to every other. Indices are ranks of the communicator.
struct ExchangePlan {
  std::size_t size = 0;
  std::vector<std::size_t> bytes;   ///< [source * size + destination]; equal on every rank.
  std::vector<ByteStream> inputs;   ///< By destination: my bytes for it.
  std::vector<ByteStream> outputs;  ///< By source: where its bytes go here.
};

/// Starts an exchange; called when the plan's task is at the head.
using ExchangeFactory = std::function<Result<std::unique_ptr<Transfer>>(ExchangePlan plan)>;

/// An exchange within one node.
Result<std::unique_ptr<Transfer>> start_node_exchange(NodePlane& plane, ExchangePlan plan);

/// What a rank sends to itself, copied slot by slot.
class SelfCopy {
 public:
  SelfCopy(const ByteStream& input, const ByteStream& output) : input_(input), output_(output) {}
  bool is_done() const { return done_ == input_.size(); }
  /// Copies some of it; false when nothing is left.
  bool advance();

 private:
  const ByteStream& input_;
  const ByteStream& output_;
  std::size_t done_ = 0;
};

}  // namespace hvd
