// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/bootstrap.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/log_words.h"
#include "base/start_thread.h"
#include "bootstrap/kept_meeting.h"
#include "bootstrap/local_host.h"
#include "bootstrap/method.h"
#include "bootstrap/mpi_world.h"
#include "bootstrap/peer_record.h"
#include "bootstrap/socket_set_wiring.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/thread_world.h"
#include "bootstrap/wiring_shape.h"
#include "topology/launch_env.h"
#include "transport/mesh.h"
#include "transport/node_exchange.h"

namespace hvd {
namespace {

/// What it takes to meet the others.
constexpr std::size_t kFirstDescriptors = 16;
/// For the store to answer a rank that has failed.
constexpr auto kTellTime = std::chrono::seconds(2);
/// Identity::source of what hvdrun has started.
constexpr std::string_view kByHvdrun = "hvdrun";
/// Of processes of an elastic job.
constexpr int kMostProcesses = 1 << 20;
/// Memberships in a row that may break while their ranks meet.
constexpr int kMostTries = 20;
/// For the ranks of a later membership to meet: all of them have waited for it.
constexpr std::chrono::milliseconds kMeetingTime{20'000};

/// A process without an identity is a world of one only where nothing speaks of several ranks.
Status check_alone(const Environment& environment) {
  if (in_slurm_shell(environment)) {
    return error(Code::kInvalidArgument,
                 "this is a batch or salloc shell of Slurm job {}, not a rank; type `srun hvdrun "
                 "python3 train.py` or `hvdrun python3 train.py`",
                 environment.get("SLURM_JOB_ID").value_or("?"));
  }
  const std::string_view name = size_without_rank(environment);
  if (name.empty()) return Status::ok();
  return error(Code::kInvalidArgument,
               "{}={} speaks of several ranks, but no variable gives this process a rank; start it "
               "with `srun`, `mpirun` or `hvdrun -np N`, or unset {}",
               name, *environment.get(name), name);
}

Result<Wiring> wire_alone(const BootstrapOptions& options, std::string reason) {
  HVD_TRY_ASSIGN(auto world, wire_threads({.size = 1,
                                           .memory_bytes = options.memory_bytes,
                                           .arena_bytes = options.arena_bytes}));
  world[0].bootstrap = "single";
  world[0].bootstrap_reason = std::move(reason);
  return std::move(world[0]);
}

struct Met {
  Rendezvous rendezvous;
  std::string how;
  std::string declined;  ///< "mpi: ...; slurm: ..."
};

Result<Met> meet(const MethodInput& input) {
  Met met;
  if (input.kept.has_met) {
    HVD_TRY_ASSIGN(met.rendezvous, meet_again(input.kept, input.deadline));
    met.rendezvous.size = input.kept.size;
    met.how = input.kept.how + ", as before";
    return met;
  }
  for (const Method& method : methods()) {
    auto offer = method.meet(input);
    if (!offer.is_ok()) return offer.status().with_context(method.name);
    if (offer.value().rendezvous) {
      met.rendezvous = std::move(*offer.value().rendezvous);
      met.how = std::move(offer.value().how);
      log(LogLevel::kInfo, "bootstrap", "the ranks meet by {}{}{}", met.how,
          met.declined.empty() ? "" : "; ", met.declined);
      return met;
    }
    if (!met.declined.empty()) met.declined += "; ";
    met.declined += format_text("{}: {}", method.name, offer.value().declined);
  }
  return error(Code::kUnsupported,
               "no way to find the other ranks ({}); start the program with `hvdrun`",
               met.declined);
}

/// This process, for people.
std::string who_i_am() {
  return format_text("process {} on {}", static_cast<long>(::getpid()), local_host_name());
}

/// The node of this process, for the store: the same for all that share memory.
std::string node_label(const Environment& environment) {
  return format_text("{}/{}", local_host_name(),
                     environment.get(launch_env::kVirtualNode).value_or(""));
}

/// The start of one rank in a world of several, from the rendezvous to the links.
class Start {
 public:
  /// `epoch`: of the place in an elastic job; 0: the job is not elastic.
  Start(const BootstrapOptions& options, Rendezvous rendezvous, const Identity& identity, int size,
        Deadline deadline, std::uint64_t epoch = 0)
      : options_(options),
        rendezvous_(std::move(rendezvous)),
        rank_(identity.rank),
        size_(size),
        local_size_(identity.local_size),
        me_({.rank = rank_, .size = size, .who = who_i_am(), .epoch = epoch}),
        deadline_(deadline) {}

  Result<Wiring> run(const Environment& environment) {
    // Closed only after a failure was told: who waits here must not take their end for the cause.
    auto doors = open_doors();
    if (!doors.is_ok()) return tell(doors.status());
    auto mine = describe_myself(options_.settings, environment);
    if (!mine.is_ok()) return tell(mine.status());
    HVD_TRY(exchange_records(std::move(mine).value(), doors.value()));
    const WiringShape shape(group_by_node(records_));
    Wiring wiring;
    wiring.rank = rank_;
    wiring.size = size_;
    fill_peers(shape, wiring);
    const Status shared =
        watched(doors.value(), [&] { return share_memory(shape, doors.value().local, wiring); });
    HVD_TRY(agree("shared", shared));
    const Status linked =
        watched(doors.value(), [&] { return link_nodes(shape, doors.value().listener, wiring); });
    HVD_TRY(agree("linked", linked));
    wiring.sets = std::make_unique<SocketSetWiring>(records_, rank_, rendezvous_.key);
    return wiring;
  }

  /// The connection to the store, for later.
  std::unique_ptr<TcpStore> take_store() { return std::move(rendezvous_.store); }

 private:
  /// Where the other ranks connect to this one.
  struct Doors {
    Listener listener;
    AbstractListener local;
  };

  static Result<Doors> open_doors() {
    HVD_TRY(reserve_descriptors(kFirstDescriptors));
    HVD_TRY_ASSIGN(Listener listener, Listener::open());
    HVD_TRY_ASSIGN(AbstractListener local, AbstractListener::open());
    return Doors{std::move(listener), std::move(local)};
  }

  TcpStore& store() const { return *rendezvous_.store; }

  /// Tells all ranks what has failed here. What failed first is everybody's cause.
  Status tell(const Status& why) const {
    const Status named =
        why.with_context(format_text("rank {} on {} failed to start", rank_, local_host_name()));
    const Status first = store().fail(me_, named, Deadline::after(kTellTime));
    return first.message() == named.message() ? why : first;
  }

  /// Hears of failures in the store while this rank waits elsewhere; then it interrupts the wait.
  class Watch {
   public:
    Watch(TcpStore& store, const Doors& doors, int stop)
        : store_(store), doors_(doors), stop_(stop) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() { end(); }

    Status begin() {
      HVD_TRY_ASSIGN(thread_, start_thread([this] {
                       heard_ = store_.await_failure(stop_);
                       if (heard_.is_ok()) return;
                       doors_.local.interrupt();
                       doors_.listener.interrupt();
                     }));
      return Status::ok();
    }
    /// What was heard.
    const Status& end() {
      if (!thread_.joinable()) return heard_;
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(stop_, &one, sizeof one);
      thread_.join();
      return heard_;
    }

   private:
    TcpStore& store_;
    const Doors& doors_;
    int stop_;
    Status heard_;
    std::thread thread_;
  };

  /// Waits for other ranks, not in the store, until one of them tells of a failure there.
  template <typename Wait>
  Status watched(const Doors& doors, Wait wait) const {
    const UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop.is_open()) return Status::system("cannot create an eventfd", errno);
    HVD_TRY(store().watch(deadline_));
    Watch watch(store(), doors, stop.get());
    HVD_TRY(watch.begin());
    const Status status = wait();
    const Status& heard = watch.end();
    // What was heard is why the wait ended; the store may not be there to say it again.
    return status.is_ok() || heard.is_ok() ? status : heard;
  }

  Status exchange_records(PeerRecord mine, const Doors& doors) {
    mine.abstract_name = doors.local.name();
    mine.port = doors.listener.port();
    mine.mpi = options_.mpi;
    const auto all = store().join(me_, encode(mine), deadline_);
    if (!all.is_ok() && all.status().code() == Code::kTimeout) {
      return error(Code::kTimeout,
                   "{} (all {} ranks must start within the timeout; see the output of those for "
                   "the cause, or raise {})",
                   all.status().message(), size_, launch_env::kStartTimeout);
    }
    HVD_TRY(all.status());
    // Every rank has read the file by now, or it would not have reached the store.
    remove_file(rendezvous_);
    for (const std::string& bytes : all.value()) {
      HVD_TRY_ASSIGN(auto record, decode_record(bytes));
      records_.push_back(std::move(record));
    }
    HVD_TRY(check_versions(records_));
    // Ranks may have been told differently: not all see it.
    const Status layout = check_layout(records_, rank_, local_size_);
    if (!layout.is_ok()) return tell(layout);
    HVD_TRY(check_backends(records_));
    const std::string doubt = doubt_network(records_, rank_);
    if (!doubt.empty()) log(LogLevel::kWarning, "bootstrap", "{}", doubt);
    return check_gpus(records_);
  }

  const PeerRecord& record(int rank) const { return records_[static_cast<std::size_t>(rank)]; }

  void fill_peers(const WiringShape& shape, Wiring& wiring) {
    wiring.peers.resize(static_cast<std::size_t>(size_));
    for (int node = 0; node < shape.nodes(); ++node) {
      for (int local = 0; local < shape.local_size(node); ++local) {
        const int rank = shape.rank_at(node, local);
        wiring.peers[static_cast<std::size_t>(rank)] = {.rank = rank,
                                                        .host = record(rank).label(),
                                                        .node = node,
                                                        .local_rank = local,
                                                        .pid = record(rank).pid,
                                                        .usable_cpus = record(rank).usable_cpus,
                                                        .mpi = record(rank).mpi};
      }
    }
  }

  Status share_memory(const WiringShape& shape, const AbstractListener& local, Wiring& wiring) {
    const PeerInfo& me = wiring.peers[static_cast<std::size_t>(rank_)];
    const std::vector<int>& ranks = shape.ranks_of(me.node);
    HVD_TRY(
        reserve_descriptors(shape.descriptors(me.node, sockets_per_lane(records_, shape.lanes()))));
    HVD_TRY_ASSIGN(wiring.node,
                   exchange_node({.ranks = ranks,
                                  .rank = rank_,
                                  .leader_name = record(ranks.front()).abstract_name,
                                  .listener = &local,
                                  .memory_bytes = options_.memory_bytes(shape.local_size(me.node)),
                                  .arena_bytes = options_.arena_bytes,
                                  .key = rendezvous_.key,
                                  .deadline = deadline_}));
    return Status::ok();
  }

  /// Returns when all ranks have come so far, or one has failed; its failure is everybody's.
  Status agree(std::string_view round, const Status& mine) const {
    if (!mine.is_ok()) return tell(mine);
    return store().allgather(round, rank_, size_, "", deadline_).status();
  }

  Result<MeshPeer> mesh_peer(const LinkId& id, int rail) const {
    const PeerRecord& other = record(id.peer_rank);
    HVD_TRY_ASSIGN(auto addresses, addresses_between(record(rank_), other, other.port, rail));
    return MeshPeer{.id = id, .host = other.label(), .addresses = std::move(addresses)};
  }

  Result<std::vector<MeshPeer>> mesh_peers(const WiringShape& shape, const PeerInfo& me,
                                           int sockets) const {
    std::vector<MeshPeer> peers;
    const auto add = [&](LinkPurpose purpose, int peer, int socket = 0, int rail = 0) -> Status {
      HVD_TRY_ASSIGN(auto mesh,
                     mesh_peer({.purpose = purpose, .peer_rank = peer, .socket = socket}, rail));
      peers.push_back(std::move(mesh));
      return Status::ok();
    };
    if (me.local_rank == 0) {
      const int parent = WiringShape::parent_of(me.node);
      if (parent >= 0) HVD_TRY(add(LinkPurpose::kTree, shape.rank_at(parent, 0)));
      for (const int child : shape.children_of(me.node)) {
        HVD_TRY(add(LinkPurpose::kTree, shape.rank_at(child, 0)));
      }
    }
    if (me.local_rank < shape.lanes()) {
      for (int node = 0; node < shape.nodes(); ++node) {
        if (node == me.node) continue;
        for (int socket = 0; socket < sockets; ++socket) {
          HVD_TRY(add(LinkPurpose::kLane, shape.rank_at(node, me.local_rank), socket,
                      me.local_rank * sockets + socket));
        }
      }
    }
    return peers;
  }

  Status link_nodes(const WiringShape& shape, const Listener& listener, Wiring& wiring) {
    const PeerInfo& me = wiring.peers[static_cast<std::size_t>(rank_)];
    wiring.lanes = shape.lanes();
    wiring.sockets = sockets_per_lane(records_, shape.lanes());
    const auto sockets = static_cast<std::size_t>(wiring.sockets);
    wiring.lane.resize(static_cast<std::size_t>(shape.nodes()) * sockets);
    HVD_TRY_ASSIGN(const auto peers, mesh_peers(shape, me, wiring.sockets));
    HVD_TRY_ASSIGN(auto links, build_mesh(rank_, listener, rendezvous_.key, peers, deadline_));
    for (const MeshPeer& peer : peers) {
      std::unique_ptr<Link> link = std::move(links[peer.id]);
      const int node = wiring.peers[static_cast<std::size_t>(peer.id.peer_rank)].node;
      if (peer.id.purpose == LinkPurpose::kLane) {
        const std::size_t first = static_cast<std::size_t>(node) * sockets;
        wiring.lane[first + static_cast<std::size_t>(peer.id.socket)] = std::move(link);
      } else if (node == WiringShape::parent_of(me.node)) {
        wiring.parent = std::move(link);
      } else {
        wiring.children.push_back(std::move(link));
      }
    }
    return Status::ok();
  }

  const BootstrapOptions& options_;
  Rendezvous rendezvous_;
  int rank_;
  int size_;
  int local_size_;
  TcpStore::Rank me_;
  Deadline deadline_;
  std::vector<PeerRecord> records_;
};

/// The ranks meet without MPI all the same, but a program that asks MPI for its rank would be told
/// 0.
void warn_of_mpi(const Identity& identity) {
  const auto mpi_size = initialised_mpi_size();
  if (!mpi_size || identity.rank != 0) return;
  const std::string warning = describe_mpi_mismatch(identity, *mpi_size);
  if (!warning.empty()) log(LogLevel::kWarning, "bootstrap", "{}", warning);
}

Result<Wiring> start_together(const Environment& environment, const BootstrapOptions& options,
                              const Identity& identity, Deadline deadline) {
  // So that this rank can tell the others if there are too few, which open_doors() looks at.
  static_cast<void>(reserve_descriptors(kFirstDescriptors));
  KeptMeeting of_this_start;
  HVD_TRY_ASSIGN(Met met, meet({.environment = environment,
                                .settings = options.settings,
                                .identity = identity,
                                .deadline = deadline,
                                .kept = options.kept != nullptr ? *options.kept : of_this_start}));
  const int size = met.rendezvous.size > 0 ? met.rendezvous.size : identity.size;
  Start start(options, std::move(met.rendezvous), identity, size, deadline);
  auto wiring = start.run(environment);
  if (!wiring.is_ok()) return wiring.status().with_context(met.how);
  wiring.value().bootstrap = met.how;
  wiring.value().bootstrap_reason = std::move(met.declined);
  return wiring;
}

/// One try of a process of an elastic job: a place, then the start with those that have one, too.
Result<Wiring> start_in_place(const Environment& environment, const BootstrapOptions& options,
                              int process, KeptMeeting& kept) {
  const auto patience = options.settings.start_timeout;
  HVD_TRY_ASSIGN(MethodOffer offer, meet_by_hvdrun({.environment = environment,
                                                    .settings = options.settings,
                                                    .identity = {},
                                                    .deadline = Deadline::after(patience),
                                                    .kept = kept}));
  if (!offer.rendezvous) return error(Code::kInvalidArgument, "{}", offer.declined);
  HVD_TRY_ASSIGN(const store_message::Place place,
                 offer.rendezvous->store->enter({.number = process,
                                                 .who = who_i_am(),
                                                 .node = node_label(environment),
                                                 .epoch = kept.epoch,
                                                 .lost = kept.lost.load()},
                                                patience));
  kept.store.reset();
  kept.has_newcomers = false;
  kept.epoch = place.epoch;
  kept.lost = store_message::kNobody;
  Identity identity;
  identity.rank = place.rank;
  identity.size = place.size;
  identity.local_rank = place.local_rank;
  identity.local_size = place.local_size;
  identity.source = kByHvdrun;
  std::unique_ptr<TcpStore> store;
  const auto start = [&]() -> Result<Wiring> {
    if (place.size == 1) {
      store = std::move(offer.rendezvous->store);
      return wire_alone(options, "one rank is left");
    }
    Start start(options, *std::move(offer.rendezvous), identity, place.size,
                Deadline::after(place.at_work != 0 ? std::min(patience, kMeetingTime) : patience),
                place.epoch);
    auto wiring = start.run(environment);
    store = start.take_store();
    return wiring;
  };
  HVD_TRY_ASSIGN(Wiring wiring, start());
  kept.came_late = kept.has_started ? kept.came_late : place.at_work != 0;
  kept.has_started = true;
  if (place.rank == 0 && store->await_newcomers(Deadline::after(kTellTime)).is_ok()) {
    kept.store = std::move(store);
  }
  wiring.bootstrap = format_text("hvdrun (membership {})", place.epoch);
  wiring.given_local_rank = place.local_rank;
  return wiring;
}

/// The start of a process whose job is elastic: it asks for its rank each time, and again where one
/// of those that it was to start with has left meanwhile. kAborted: the job ends.
Result<Wiring> start_elastic(const Environment& environment, const BootstrapOptions& options,
                             int process) {
  KeptMeeting of_this_start;
  KeptMeeting& kept = options.kept != nullptr ? *options.kept : of_this_start;
  for (int tries = 1;; ++tries) {
    auto wiring = start_in_place(environment, options, process, kept);
    if (wiring.is_ok()) return wiring;
    const Status& why = wiring.status();
    // One that is stopped meanwhile is ended by who serves the store, once the others are back.
    const bool is_late = why.code() == Code::kTimeout && kept.epoch > 1;
    const bool may_pass = why.code() == Code::kPeerLost || is_late;
    if (!may_pass || tries == kMostTries) {
      return why.with_context(
          format_text("process {} on {}: cannot start", process, local_host_name()));
    }
    log(LogLevel::kInfo, "bootstrap", "{}; asking for a place anew", why.message());
  }
}

}  // namespace

Result<Wiring> bootstrap(const Environment& environment, const BootstrapOptions& options) {
  const Deadline deadline =
      options.deadline.value_or(Deadline::after(options.settings.start_timeout));
  HVD_TRY_ASSIGN(const auto identity, derive_identity(environment));
  HVD_TRY_ASSIGN(const auto process, environment.get_int(launch_env::kProcess, 0, kMostProcesses));
  // A spare has no rank yet. What another launcher has started within a rank is not of its job.
  if (process && (!identity || identity->source == kByHvdrun)) {
    return start_elastic(environment, options, static_cast<int>(*process));
  }
  // One line per job, before anything else is logged: whoever looks for a hang reads it.
  if (!identity || identity->rank == 0) {
    warn_of_log_words(options.settings.log_words);
  }
  if (!identity) {
    HVD_TRY(check_alone(environment));
    return wire_alone(options, "no launcher started this process");
  }
  warn_of_mpi(*identity);
  if (identity->size == 1) {
    return wire_alone(options, format_text("{} started one rank", identity->source));
  }
  auto wiring = start_together(environment, options, *identity, deadline);
  if (wiring.is_ok()) return wiring;
  return wiring.status().with_context(
      format_text("rank {} on {}: cannot start", identity->rank, local_host_name()));
}

}  // namespace hvd
