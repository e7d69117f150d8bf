// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/peer_record.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/rounding.h"
#include "bootstrap/job_name.h"
#include "bootstrap/local_host.h"
#include "topology/launch_env.h"
#include "transport/node_exchange.h"
#include "transport/socket_address.h"

namespace hvd {
namespace {

auto ranks_on(const std::string& host, const std::vector<PeerRecord>& records) {
  return std::count_if(records.begin(), records.end(),
                       [&](const PeerRecord& record) { return record.host == host; });
}

constexpr int kMostSockets = 16;

Result<std::vector<Interface>> usable_interfaces(const std::string& wanted) {
  HVD_TRY_ASSIGN(InterfaceChoice choice, choose_interfaces(interfaces_of_host(), wanted));
  std::string names;
  for (const Interface& interface : choice.usable) {
    names += format_text("{}{} {}", names.empty() ? "" : ", ", interface.name, interface.address);
  }
  log(LogLevel::kInfo, "bootstrap", "other hosts reach {} under {}{}{}", local_host_name(),
      names.empty() ? "nothing" : names,
      choice.left_out.empty() ? "" : "; left out: ", choice.left_out);
  return std::move(choice.usable);
}

}  // namespace

std::string PeerRecord::group_key() const { return format_text("{}/{}", machine, virtual_node); }

std::string PeerRecord::label() const {
  return virtual_node < 0 ? host : format_text("{}/node{}", host, virtual_node);
}

std::string encode(const PeerRecord& record) {
  ByteWriter writer;
  writer.put_string(record.version);
  writer.put_string(record.host);
  writer.put_string(record.machine);
  writer.put(record.virtual_node);
  writer.put_string(record.abstract_name);
  writer.put(static_cast<std::uint32_t>(record.interfaces.size()));
  for (const Interface& interface : record.interfaces) {
    writer.put_string(interface.name);
    writer.put_string(interface.address);
    writer.put(interface.prefix_bits);
    writer.put(interface.speed_mbit);
  }
  writer.put(record.sockets);
  writer.put(record.port);
  writer.put(record.pid);
  writer.put(record.usable_cpus);
  writer.put_string(record.gpu);
  writer.put_string(record.mpi);
  writer.put_string(record.backend);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<PeerRecord> decode_record(std::string_view bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  PeerRecord record;
  HVD_TRY_ASSIGN(record.version, reader.get_string());
  HVD_TRY_ASSIGN(record.host, reader.get_string());
  HVD_TRY_ASSIGN(record.machine, reader.get_string());
  HVD_TRY_ASSIGN(record.virtual_node, reader.get<int>());
  HVD_TRY_ASSIGN(record.abstract_name, reader.get_string());
  HVD_TRY_ASSIGN(const auto count, reader.get<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    Interface& interface = record.interfaces.emplace_back();
    HVD_TRY_ASSIGN(interface.name, reader.get_string());
    HVD_TRY_ASSIGN(interface.address, reader.get_string());
    HVD_TRY_ASSIGN(interface.prefix_bits, reader.get<int>());
    HVD_TRY_ASSIGN(interface.speed_mbit, reader.get<int>());
  }
  HVD_TRY_ASSIGN(record.sockets, reader.get<int>());
  HVD_TRY_ASSIGN(record.port, reader.get<std::uint16_t>());
  HVD_TRY_ASSIGN(record.pid, reader.get<std::int64_t>());
  HVD_TRY_ASSIGN(record.usable_cpus, reader.get<int>());
  HVD_TRY_ASSIGN(record.gpu, reader.get_string());
  HVD_TRY_ASSIGN(record.mpi, reader.get_string());
  HVD_TRY_ASSIGN(record.backend, reader.get_string());
  return record;
}

Result<PeerRecord> describe_myself(const MeetingSettings& settings,
                                   const Environment& environment) {
  PeerRecord record;
  record.version = HVD_VERSION;
  record.host = local_host_name();
  record.machine = machine_key();
  HVD_TRY_ASSIGN(const auto virtual_node,
                 environment.get_int(launch_env::kVirtualNode, 0, 1 << 20));
  record.virtual_node = static_cast<int>(virtual_node.value_or(-1));
  HVD_TRY_ASSIGN(record.interfaces, usable_interfaces(settings.interfaces));
  record.sockets = settings.sockets;
  record.pid = ::getpid();
  record.usable_cpus = usable_cpus();
  record.backend = settings.backend;
  if (!settings.shares_gpu) record.gpu = environment.get(launch_env::kGpuId).value_or("");
  return record;
}

Result<std::vector<SocketAddress>> addresses_between(const PeerRecord& mine,
                                                     const PeerRecord& other, std::uint16_t port,
                                                     int rail) {
  std::vector<std::string> texts = order_addresses(mine.interfaces, other.interfaces, rail);
  // Virtual nodes share a network name space: no packet need leave it.
  if (other.machine == mine.machine) texts.insert(texts.begin(), {"127.0.0.1", "::1"});
  std::vector<SocketAddress> addresses;
  for (const std::string& text : texts) {
    HVD_TRY_ASSIGN(auto parsed, SocketAddress::of(text, port));
    addresses.push_back(parsed);
  }
  return addresses;
}

std::string doubt_network(const std::vector<PeerRecord>& records, int rank) {
  const PeerRecord& mine = records[static_cast<std::size_t>(rank)];
  const bool alone = std::all_of(records.begin(), records.end(), [&](const PeerRecord& record) {
    return record.machine == mine.machine;
  });
  if (alone) return {};
  if (mine.interfaces.empty()) {
    return format_text("{} has no network interface that other hosts could reach", mine.host);
  }
  if (!leads_nowhere(mine.interfaces.front().name)) return {};
  return format_text(
      "{} offers {} {} to other hosts, for it has nothing better; it may lead to containers of "
      "this host only: name the interface that joins the hosts in HVD_INTERFACE",
      mine.host, mine.interfaces.front().name, mine.interfaces.front().address);
}

int sockets_per_lane(const std::vector<PeerRecord>& records, int lanes) {
  const PeerRecord& first = records.front();
  if (first.sockets > 0) return first.sockets;
  int rails = kMostSockets;
  bool is_one_machine = true;
  for (const PeerRecord& record : records) {
    if (record.machine == first.machine) continue;
    is_one_machine = false;
    rails = std::min(rails, rails_between(first.interfaces, record.interfaces));
  }
  if (is_one_machine || lanes < 1) return 1;
  return std::max(1, divide_up(rails, lanes));
}

std::vector<std::vector<int>> group_by_node(const std::vector<PeerRecord>& records) {
  std::map<std::string, std::size_t> index;
  std::vector<std::vector<int>> nodes;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto [found, is_new] = index.emplace(records[rank].group_key(), nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].push_back(static_cast<int>(rank));
  }
  return nodes;
}

Status check_layout(const std::vector<PeerRecord>& records, int rank, int local_size) {
  if (local_size != static_cast<int>(records.size())) return Status::ok();
  const PeerRecord& mine = records[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < records.size(); ++other) {
    const PeerRecord& theirs = records[other];
    if (place_within(JobSpan::kOneHost, theirs.machine) ==
        place_within(JobSpan::kOneHost, mine.machine)) {
      continue;
    }
    return error(Code::kInvalidArgument,
                 "rank {} on {} was told that all {} ranks are local, but rank {} is on {}: it is "
                 "of another job, or the local size (LOCAL_WORLD_SIZE, ...) is wrong",
                 rank, mine.host, local_size, other, theirs.host);
  }
  return Status::ok();
}

Status check_versions(const std::vector<PeerRecord>& records) {
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank].version == records[0].version) continue;
    return error(Code::kMismatch,
                 "rank {} on {} runs libhvd {}, rank 0 on {} runs {}: install one version on all "
                 "nodes",
                 rank, records[rank].host, records[rank].version, records[0].host,
                 records[0].version);
  }
  return Status::ok();
}

Status check_backends(const std::vector<PeerRecord>& records) {
  const auto told = [](const PeerRecord& record) {
    if (record.backend.empty()) return format_text("has no {}", launch_env::kBackend);
    return format_text("has {}={}", launch_env::kBackend, record.backend);
  };
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank].backend == records[0].backend) continue;
    return error(Code::kMismatch, "rank {} on {} {}, rank 0 on {} {}: set it alike for all ranks",
                 rank, records[rank].host, told(records[rank]), records[0].host, told(records[0]));
  }
  return Status::ok();
}

Status check_gpus(const std::vector<PeerRecord>& records) {
  // By host name, not by machine key: the GPU of two containers of a node is one GPU.
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> owners;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const PeerRecord& record = records[rank];
    if (record.gpu.empty()) continue;
    const auto [owner, is_new] = owners.try_emplace({record.host, record.gpu}, rank);
    if (is_new) continue;
    return error(Code::kInvalidArgument,
                 "ranks {} and {} on {} both chose GPU {}: give each rank a GPU of its own "
                 "(--gpus-per-node={} for the ranks of a node; no --gpu-bind=map_gpu or "
                 "CUDA_VISIBLE_DEVICES that names one GPU for two of them), or share it "
                 "({}=1)",
                 owner->second, rank, record.host, record.gpu, ranks_on(record.host, records),
                 launch_env::kShareGpu);
  }
  return Status::ok();
}

}  // namespace hvd
