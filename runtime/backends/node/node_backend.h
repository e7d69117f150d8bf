// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "backends/node/exchange.h"
#include "backends/node/node_plane.h"
#include "backends/node/rooted.h"
#include "collective/backend.h"

namespace hvd {

/// Ok, or kUnsupported where the backends of CPU memory have no task for this operation. `backend`
/// is the name of the one that says so.
Status check_node_operation(std::string_view backend, const Operation& operation, DataType dtype);

/// What the backends of CPU memory have in common: which operations they take, and which task
/// carries out each. How bytes travel, and how large tensors are reduced, is each one's own.
/// Threads: as Backend.
class NodeBackend : public Backend {
 public:
  std::string_view name() const final { return name_; }
  Status supports(const Operation& operation, DataType dtype, Device device) const final;
  Result<std::unique_ptr<Task>> start(Batch batch) final;
  bool reproducible() const final { return true; }

 protected:
  /// Takes a context whose memory check_node_memory() accepts. `name` is that of the table entry.
  NodeBackend(std::string_view name, const BackendContext& context);
  const Communicator& communicator() const { return communicator_; }
  NodePlane& plane() { return plane_; }
  const NodePlane& plane() const { return plane_; }

  /// A reduction other than Adasum; `allreduce` is what it does to its elements.
  virtual Result<std::unique_ptr<Task>> start_reduction(Batch batch,
                                                        const Allreduce& allreduce) = 0;
  virtual std::unique_ptr<Transfer> start_transfer(RootedPlan plan) = 0;
  virtual Result<std::unique_ptr<Transfer>> start_exchange(ExchangePlan plan) = 0;

 private:
  std::string_view name_;
  const Communicator& communicator_;
  NodePlane plane_;
};

/// Ok where the context has the memory that a NodeBackend needs.
Status check_node_memory(std::string_view name, const BackendContext& context);

}  // namespace hvd
