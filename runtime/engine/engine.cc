// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/log.h"
#include "bootstrap/wiring_shape.h"
#include "engine/engine_impl.h"

namespace hvd {
namespace {

Communicator make_world(const Wiring& wiring) {
  Communicator world;
  world.rank = wiring.rank;
  world.size = wiring.size;
  std::map<int, std::vector<int>> nodes;
  for (const PeerInfo& peer : wiring.peers) {
    world.world_ranks.push_back(peer.rank);
    world.hosts.push_back(peer.host);
    nodes[peer.node].push_back(peer.rank);
  }
  for (auto& [node, ranks] : nodes) {
    std::sort(ranks.begin(), ranks.end());
    world.nodes.push_back(std::move(ranks));
  }
  const PeerInfo& me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  world.node = me.node;
  world.local_rank = me.local_rank;
  return world;
}

/// The ranks of `node` and of the nodes below it in the tree of leaders.
RankSet ranks_below(const Communicator& world, int node) {
  RankSet below(world.size);
  for (int candidate = node; candidate < world.node_count(); ++candidate) {
    int ancestor = candidate;
    while (ancestor > node) ancestor = WiringShape::parent_of(ancestor);
    if (ancestor != node) continue;
    for (const int rank : world.nodes[static_cast<std::size_t>(candidate)]) below.add(rank);
  }
  return below;
}

Negotiation::Place make_place(const Communicator& world, const Wiring& wiring) {
  Negotiation::Place place;
  place.rank = world.rank;
  place.size = world.size;
  place.local_rank = world.local_rank;
  place.node_ranks = world.nodes[static_cast<std::size_t>(world.node)];
  place.hosts = world.hosts;
  for (const PeerInfo& peer : wiring.peers) place.pids.push_back(peer.pid);
  for (const auto& child : wiring.children) {
    const auto& peer = wiring.peers[static_cast<std::size_t>(child->peer_rank())];
    place.child_subtrees.push_back(ranks_below(world, peer.node));
  }
  return place;
}

/// Ranks that share this rank's CPUs: virtual nodes ("host/node1") are one machine.
int ranks_on_machine(const std::vector<PeerInfo>& peers, int rank) {
  const auto machine = [](const PeerInfo& peer) {
    return peer.host.substr(0, peer.host.find('/'));
  };
  const std::string mine = machine(peers[static_cast<std::size_t>(rank)]);
  return static_cast<int>(std::count_if(
      peers.begin(), peers.end(), [&](const PeerInfo& peer) { return machine(peer) == mine; }));
}

}  // namespace

std::size_t node_memory_bytes(std::span<const BackendEntry> table, int local_size) {
  return whole_pages(Board::bytes(local_size)) + plane_memory_bytes(table, local_size);
}

Engine::Impl::Impl(Wiring wiring, std::span<const BackendEntry> table, const EngineOptions& options,
                   Poller poller)
    : timeline_(wiring.rank, wiring.peers[static_cast<std::size_t>(wiring.rank)].host),
      completion_(options.first_handle),
      world_(make_world(wiring)),
      peers_(wiring.peers),
      options_(options),
      table_(table.begin(), table.end()),
      wiring_(std::move(wiring)),
      poller_(std::move(poller)),
      submission_(timeline_),
      launch_order_(world_.rank, world_.size),
      left_(world_.size),
      lost_(world_.size) {
  const PeerInfo& me = peers_[static_cast<std::size_t>(wiring_.rank)];
  const int sharers = ranks_on_machine(peers_, wiring_.rank);
  const bool crowded = sharers > me.usable_cpus;
  spin_polls_ = options.spin >= 0 ? options.spin + 1 : (crowded ? 50 : 20'000);
  const int cpus = std::max(me.usable_cpus, 1);
  long_yield_ = kYieldTime * ((sharers + cpus - 1) / cpus);
}

Status Engine::Impl::open() {
  Lock lock(progress_);
  const std::span<std::byte> memory = wiring_.node.memory;
  const int local_size = world_.local_size();
  if (memory.size() < node_memory_bytes(table_, local_size)) {
    return error(Code::kInternal, "rank {}: {} bytes of node memory, {} wanted", wiring_.rank,
                 memory.size(), node_memory_bytes(table_, local_size));
  }
  const Board board = Board::map(memory, local_size);
  auto plane = std::make_unique<SetPlane>();
  plane->communicator = world_;
  std::vector<int> everyone(static_cast<std::size_t>(local_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  plane->doorbell = wiring_.node.doorbell->among(everyone);
  plane->links.lane = std::move(wiring_.lane);
  plane->links.lanes = wiring_.lanes;
  plane->links.sockets = wiring_.sockets;
  plane->links.owner = wiring_.node.owner;
  plane->arena = {wiring_.node.arena, everyone};
  plane->open(table_, memory.subspan(whole_pages(Board::bytes(local_size))), options_);
  HVD_TRY(watch_descriptors());
  HVD_TRY(watch_lanes(*plane));
  {
    Lock sets(sets_mutex_);
    sets_[0] = {world_.world_ranks, plane.get(), false, nullptr};
  }
  world_plane_ = plane.get();
  planes_.push_back(std::move(plane));
  publish_descriptors();
  Negotiation::Place place = make_place(world_, wiring_);
  ControlTree tree(
      std::move(wiring_.parent), std::move(wiring_.children),
      {world_.size, options_.heartbeat, options_.link_timeout, options_.silence_timeout},
      Clock::now());
  negotiation_ = std::make_unique<Negotiation>(
      std::move(place), board, wiring_.node.doorbell.get(), std::move(tree),
      Coordinator::Options{options_.fusion_bytes, options_.stall_warning, options_.stall_shutdown});
  return Status::ok();
}

void Engine::Impl::start_thread(std::shared_ptr<Impl> self) {
  thread_ = std::thread([self = std::move(self)] {
    self->run_thread();
    if (self->stopped_by_own_thread_) self->end_pending();
  });
}

void Engine::Impl::stop() {
  stop_.store(true);
  if (thread_.get_id() == std::this_thread::get_id()) {
    // A callback held the engine last. Its thread cannot wait for itself.
    stopped_by_own_thread_ = true;
    return thread_.detach();
  }
  wiring_.node.doorbell->ring_self();
  thread_.join();
  end_pending();
}

void Engine::Impl::end_pending() {
  {
    Lock lock(progress_);
    // The ranks of this node hear the others through its first rank only.
    if (leaving_.load() && !all_left_.load() && !is_over() && world_.local_rank == 0) {
      negotiation_->spread_loss(wiring_.rank, lost_text(wiring_.rank, "it shut down alone"));
    }
    end_epoch(error(Code::kAborted, "rank {}: hvd was shut down", wiring_.rank));
    negotiation_->stop_listening();
  }
  completion_.run_callbacks();
}

Status Engine::Impl::over_status() {
  Lock lock(over_mutex_);
  return over_status_;
}

Result<Engine::Handle> Engine::Impl::submit(Request&& request) {
  if (is_over()) return over_status();
  if (leaving_.load()) {
    return error(Code::kAborted, "rank {}: '{}' comes after shutdown", wiring_.rank, request.name);
  }
  HVD_TRY_ASSIGN(Gpu* const gpu, open_gpu(request));
  if (request.process_set == 0 && !has_joined_world_.load() &&
      !std::holds_alternative<Join>(request.operation)) {
    HVD_TRY(check_request(request, world_));
    HVD_TRY(bind_gpu(*world_plane_, request));
    complete_splits(request, world_);
  } else {
    HVD_TRY(enter_set(request));
  }
  const bool more = request.more;
  const PendingPtr pending = completion_.add(std::move(request));
  if (gpu != nullptr) {
    pending->reaper = &reaper_;
    pending->ready = ready_points_.join(*gpu, pending->request.stream);
    // relaxed: see mark_waiting().
    has_gpu_tensors_.store(true, std::memory_order_relaxed);
  }
  if (pending->request.on_complete) mark_waiting(*pending, Clock::now() + kUrgeTimeOfOthers);
  submission_.push(pending);
  if (!more) flush();
  return pending->handle;
}

Result<bool> Engine::Impl::poll(Handle handle) {
  HVD_TRY_ASSIGN(const PendingPtr pending, completion_.find(handle));
  if (!pending->done.load()) {
    mark_waiting(*pending, Clock::now() + kUrgeTimeOfOthers);
    flush();
  }
  return pending->done.load();
}

void Engine::Impl::flush() {
  static_cast<void>(ready_points_.close());  // what cannot be recorded now fails with its batch
  if (thread_sleeps_.load()) wiring_.node.doorbell->ring_self();
}

Status Engine::Impl::shutdown(Deadline deadline) {
  if (leaving_.exchange(true)) return Status::ok();
  if (!is_over()) {
    Lock lock(progress_);
    take_submissions();
    if (!is_over()) negotiation_->leave();
  }
  wiring_.node.doorbell->ring_self();
  const bool together =
      completion_.wait_until([this] { return all_left_.load() || is_over(); }, deadline);
  // The last entries of the log must leave with us; a loss that this rank told is one, too.
  if (all_left_.load() || is_over()) send_last_words();
  if (together) return Status::ok();
  RankSet missing = RankSet::all(world_.size);
  {
    Lock lock(progress_);
    missing = missing.without(left_);
  }
  return error(
      Code::kTimeout,
      "rank {}: {} did not shut down in time; leaving without them: call shutdown on every "
      "rank, or give it more time",
      wiring_.rank, describe_ranks(missing));
}

void Engine::Impl::send_last_words() {
  const Deadline brief = Deadline::after(kTick);
  for (bool sent = false; !sent && !brief.has_passed();) {
    Lock lock(progress_);
    sent = negotiation_->flush();
    if (!sent) sched_yield();
  }
}

void Engine::Impl::abort(const std::string& cause) {
  {
    Lock lock(progress_);
    if (is_over()) return;
    negotiation_->leave_farewell(cause);
    negotiation_->spread_loss(wiring_.rank, lost_text(wiring_.rank, cause));
    step();
  }
  completion_.run_callbacks();
}

void Engine::Impl::leave_farewell(const std::string& cause) {
  Lock lock(progress_);
  if (is_over()) return;
  negotiation_->leave_farewell(cause);
  static_cast<void>(negotiation_->flush());
}

void Engine::Impl::abandon_after_fork() {
  for (const int fd : *descriptors_.load()) ::close(fd);
}

Engine::Statistics Engine::Impl::statistics() const {
  auto& self = const_cast<Impl&>(*this);  // the lock, and nothing else, changes
  Lock lock(self.progress_);
  Statistics copy = self.statistics_;
  copy.waited = std::chrono::nanoseconds(waited_ns_.load());
  copy.in_full = self.negotiation_->announced_in_full();
  copy.names = self.negotiation_->known_names();
  copy.evictions = self.negotiation_->evictions();
  return copy;
}

Engine::Engine(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() { impl_->stop(); }

Result<std::unique_ptr<Engine>> Engine::start(Wiring wiring, std::span<const BackendEntry> table,
                                              const EngineOptions& options) {
  HVD_TRY_ASSIGN(auto poller, Poller::create());
  auto impl = std::make_shared<Impl>(std::move(wiring), table, options, std::move(poller));
  HVD_TRY(impl->open());
  if (!options.timeline.path.empty()) HVD_TRY(impl->timeline_.start(options.timeline));
  impl->start_thread(impl);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<Engine::Handle> Engine::submit(Request request) { return impl_->submit(std::move(request)); }

void Engine::flush() { impl_->flush(); }

Result<bool> Engine::poll(Handle handle) { return impl_->poll(handle); }

Status Engine::wait(Handle handle, Deadline deadline) { return impl_->wait(handle, deadline); }

Status Engine::wait_stream(Handle handle, StreamHandle stream, Deadline deadline) {
  return impl_->wait_stream({&handle, 1}, stream, deadline);
}
Status Engine::wait_stream(std::span<const Handle> handles, StreamHandle stream,
                           Deadline deadline) {
  return impl_->wait_stream(handles, stream, deadline);
}

Result<const GatherResult*> Engine::gathered(Handle handle, std::size_t index) {
  HVD_TRY_ASSIGN(const PendingPtr pending, impl_->completion_.find(handle));
  const bool is_there = pending->done.load() || pending->enqueued.load();
  if (!is_there || index >= pending->gathered.size()) {
    return error(Code::kInvalidArgument,
                 "'{}' has no gathered tensor {}: not an allgather, or not complete",
                 pending->request.name, index);
  }
  return static_cast<const GatherResult*>(&pending->gathered[index]);
}

void Engine::release(Handle handle) {
  impl_->free_behind_readers({&handle, 1});
  impl_->completion_.release(handle);
}
void Engine::release(std::span<const Handle> handles) {
  impl_->free_behind_readers(handles);
  impl_->completion_.release(handles);
}
Result<int> Engine::add_process_set(std::vector<int> ranks, Deadline deadline) {
  return impl_->add_process_set(std::move(ranks), deadline);
}
Result<std::vector<std::string>> Engine::tell_all(Result<std::string> mine, Deadline deadline) {
  return impl_->tell_all(std::move(mine), deadline);
}
Status Engine::remove_process_set(int process_set, Deadline deadline) {
  return impl_->remove_process_set(process_set, deadline);
}
Result<int> Engine::join(int process_set, bool active_average, Deadline deadline) {
  return impl_->join(process_set, active_average, deadline);
}
std::vector<int> Engine::process_sets() const { return impl_->process_sets(); }
Result<std::vector<int>> Engine::process_set_ranks(int process_set) const {
  return impl_->process_set_ranks(process_set);
}
Status Engine::shutdown(Deadline deadline) { return impl_->shutdown(deadline); }
bool Engine::left_together() const { return impl_->left_together(); }
void Engine::leave_farewell(const std::string& cause) { impl_->leave_farewell(cause); }
void Engine::abort(const std::string& cause) { impl_->abort(cause); }
void Engine::abandon_after_fork() { impl_->abandon_after_fork(); }
std::shared_ptr<SharedArena> Engine::arena() const { return impl_->arena(); }
const Communicator& Engine::world() const { return impl_->world_; }
const std::vector<PeerInfo>& Engine::peers() const { return impl_->peers_; }
Status Engine::start_timeline(const TimelineOptions& options) {
  return impl_->timeline_.start(options);
}
Status Engine::stop_timeline() { return impl_->timeline_.stop(); }
std::string Engine::describe() const { return impl_->describe(); }
Engine::Statistics Engine::statistics() const { return impl_->statistics(); }

}  // namespace hvd
