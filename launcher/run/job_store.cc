// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/job_store.h"

#include <cstddef>

#include "base/descriptor_limit.h"
#include "base/format.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/job_key.h"

namespace hvd {
namespace {

/// A connection to the store, three pipes of which both ends are open for a moment, a pidfd.
constexpr std::size_t kDescriptorsPerRank = 8;

class TcpJobStore : public JobStore {
 public:
  TcpJobStore(std::unique_ptr<TcpStoreServer> server, const JobKey& key)
      : server_(std::move(server)), key_(key) {}
  // All ranks are forked here: nobody else needs to reach the port.
  std::string address() const override { return server_->loopback_address(); }
  std::string key() const override { return key_.to_hex(); }
  bool was_reached() const override { return server_->has_served(); }
  void rank_ended(int rank, const std::string& host, const std::string& how) override {
    server_->rank_ended(rank, error(Code::kPeerLost,
                                    "rank {} on host {} has ended ({}) and does not come to "
                                    "hvd.init()",
                                    rank, host, how));
  }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  JobKey key_;
};

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::start(int ranks) {
  const Status room = reserve_descriptors(kDescriptorsPerRank * static_cast<std::size_t>(ranks));
  if (!room.is_ok()) return room.with_context(format_text("{} ranks on this host", ranks));
  const JobKey key = JobKey::random();
  HVD_TRY_ASSIGN(auto server, TcpStoreServer::start(key));
  return std::unique_ptr<JobStore>(std::make_unique<TcpJobStore>(std::move(server), key));
}

}  // namespace hvd
