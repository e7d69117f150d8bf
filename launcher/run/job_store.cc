// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/job_store.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/job_key.h"

namespace hvd {
namespace {

/// A connection to the store, three pipes of which both ends are open for a moment, a pidfd.
constexpr std::size_t kDescriptorsPerRank = 8;

/// Events on their way from the server's thread to the supervisor.
class EventQueue {
 public:
  explicit EventQueue(UniqueFd bell) : bell_(std::move(bell)) {}

  void add(ElasticEvent event) {
    const Lock lock(mutex_);
    events_.push_back(std::move(event));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
  }
  std::vector<ElasticEvent> take() {
    const Lock lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(bell_.get(), &count, sizeof count);
    return std::exchange(events_, {});
  }
  int bell() const { return bell_.get(); }

 private:
  UniqueFd bell_;
  Mutex mutex_;
  std::vector<ElasticEvent> events_ HVD_GUARDED_BY(mutex_);
};

class TcpJobStore : public JobStore {
 public:
  TcpJobStore(std::unique_ptr<TcpStoreServer> server, const JobKey& key,
              std::shared_ptr<EventQueue> events)
      : events_(std::move(events)), server_(std::move(server)), key_(key) {}
  std::string address() const override { return server_->loopback_address(); }
  std::string addresses(const std::string& first) const override {
    return server_->addresses(first);
  }
  std::string key() const override { return key_.to_hex(); }
  bool was_reached() const override { return server_->has_served(); }
  void rank_ended(int rank, const std::string& host, const std::string& how) override {
    server_->rank_ended(rank, error(Code::kPeerLost,
                                    "rank {} on host {} has ended ({}) and does not come to "
                                    "hvd.init()",
                                    rank, host, how));
  }
  void process_ended(int process, bool well) override { server_->process_ended(process, well); }
  void end_job(const std::string& why) override { server_->end_job(Status(Code::kAborted, why)); }
  void kill(int process) override { server_->kill(process); }
  void answer_end(int process, int successor) override { server_->answer_end(process, successor); }
  void add_process() override { server_->add_process(); }
  void aim_at(int size) override { server_->aim_at(size); }
  int events() const override { return events_->bell(); }
  std::vector<ElasticEvent> take_events() override { return events_->take(); }

 private:
  std::shared_ptr<EventQueue> events_;  ///< The server tells it.
  std::unique_ptr<TcpStoreServer> server_;
  JobKey key_;
};

Result<std::shared_ptr<EventQueue>> make_queue() {
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return Status::system("cannot create an eventfd", errno);
  return std::make_shared<EventQueue>(std::move(bell));
}

Status make_room(std::size_t processes) {
  const Status room = reserve_descriptors(kDescriptorsPerRank * processes);
  return room.is_ok() ? room : room.with_context(format_text("{} ranks on this host", processes));
}

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::start(int ranks) {
  HVD_TRY(make_room(static_cast<std::size_t>(ranks)));
  HVD_TRY_ASSIGN(auto events, make_queue());
  const JobKey key = JobKey::random();
  HVD_TRY_ASSIGN(auto server, TcpStoreServer::start(key));
  return std::unique_ptr<JobStore>(
      std::make_unique<TcpJobStore>(std::move(server), key, std::move(events)));
}

Result<std::unique_ptr<JobStore>> JobStore::start(const RosterPlan& plan) {
  HVD_TRY(make_room(static_cast<std::size_t>(plan.processes)));
  HVD_TRY_ASSIGN(auto events, make_queue());
  const JobKey key = JobKey::random();
  HVD_TRY_ASSIGN(auto server, TcpStoreServer::start(key, plan, [events](ElasticEvent event) {
                   events->add(std::move(event));
                 }));
  return std::unique_ptr<JobStore>(
      std::make_unique<TcpJobStore>(std::move(server), key, std::move(events)));
}

}  // namespace hvd
