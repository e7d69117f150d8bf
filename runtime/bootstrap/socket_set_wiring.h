// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "bootstrap/peer_record.h"
#include "bootstrap/set_wiring.h"
#include "transport/listener.h"
#include "transport/node_exchange.h"

namespace hvd {

/// Process sets of ranks that are processes: the exchange of a node and the mesh, once more, over
/// listeners that are open only while a set is being added.
class SocketSetWiring : public SetWiring {
 public:
  /// `records`: of all ranks of the job.
  SocketSetWiring(std::vector<PeerRecord> records, int rank, const JobKey& key)
      : records_(std::move(records)), rank_(rank), key_(key) {}

  Result<std::string> offer() override;
  Result<SetLinks> connect(const Plan& plan) override;
  void withdraw() override;
  void interrupt() override;

 private:
  struct Offer {
    AbstractListener local;
    Listener listener;
  };
  Result<SetLinks> connect_through(const Offer& offer, const Plan& plan) const;
  Status share_memory(const Offer& offer, const Plan& plan, const std::vector<int>& ranks,
                      SetLinks& links) const;
  Status link_nodes(const Offer& offer, const Plan& plan, std::size_t my_node,
                    SetLinks& links) const;

  std::vector<PeerRecord> records_;
  int rank_;
  JobKey key_;
  Mutex mutex_;
  /// Shared with connect(), which uses it without the lock.
  std::shared_ptr<const Offer> offer_ HVD_GUARDED_BY(mutex_);
  bool interrupted_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd
