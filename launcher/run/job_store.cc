// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/job_store.h"

#include "bootstrap/tcp_store_server.h"
#include "transport/job_key.h"

namespace hvd {
namespace {

class TcpJobStore : public JobStore {
 public:
  TcpJobStore(std::unique_ptr<TcpStoreServer> server, const JobKey& key)
      : server_(std::move(server)), key_(key) {}
  // All ranks are forked here: nobody else needs to reach the port.
  std::string address() const override { return server_->loopback_address(); }
  std::string key() const override { return key_.to_hex(); }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  JobKey key_;
};

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::start() {
  const JobKey key = JobKey::random();
  HVD_TRY_ASSIGN(auto server, TcpStoreServer::start(key));
  return std::unique_ptr<JobStore>(std::make_unique<TcpJobStore>(std::move(server), key));
}

}  // namespace hvd
