// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "launcher/node/node_map.h"

namespace hvd {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson or_null(int number) { return number < 0 ? OrderedJson() : OrderedJson(number); }

std::string_view vendor_name(GpuVendor vendor) {
  switch (vendor) {
    case GpuVendor::kNvidia:
      return "NVIDIA";
    case GpuVendor::kAmd:
      return "AMD";
    case GpuVendor::kIntel:
      return "Intel";
  }
  return "";
}

OrderedJson gpus_json(const NodeMap& map) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t i = 0; i < map.node.gpus.size(); ++i) {
    const NodeGpu& gpu = map.node.gpus[i];
    OrderedJson distances = OrderedJson::array();
    if (i < map.node.gpu_to_nic.size()) {
      for (const PciDistance each : map.node.gpu_to_nic[i]) {
        distances.push_back(distance_name(each));
      }
    }
    list.push_back({{"index", gpu.index},
                    {"bus_id", gpu.bus_id},
                    {"vendor", vendor_name(gpu.vendor)},
                    {"model", gpu.model},
                    {"uuid", gpu.uuid},
                    {"mig_uuids", gpu.mig_uuids},
                    {"numa", or_null(gpu.numa)},
                    {"near_cpus", format_cpu_set(gpu.near_cpus)},
                    {"to_nics", std::move(distances)}});
  }
  return list;
}

OrderedJson nics_json(const NodeMap& map) {
  OrderedJson list = OrderedJson::array();
  for (const NodeNic& nic : map.node.nics) {
    list.push_back({{"name", nic.name},
                    {"device", nic.device},
                    {"port", nic.port},
                    {"bus_id", nic.bus_id},
                    {"driver", nic.driver},
                    {"link", nic.link},
                    {"gigabits", nic.gigabits},
                    {"up", nic.is_up},
                    {"numa", or_null(nic.numa)}});
  }
  return list;
}

OrderedJson fabric_json(const Fabric& fabric) {
  OrderedJson unused = OrderedJson::array();
  for (const UnusedNic& nic : fabric.unused) {
    unused.push_back({{"name", nic.name}, {"why", nic.why}});
  }
  return {{"kind", fabric_name(fabric.kind)},
          {"evidence", fabric.evidence},
          {"nics", fabric.nics},
          {"devices", fabric.devices},
          {"interfaces", fabric.interfaces},
          {"unused", std::move(unused)}};
}

OrderedJson ranks_json(const NodeMap& map) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t rank = 0; rank < map.matching.ranks.size(); ++rank) {
    const MatchedRank& each = map.matching.ranks[rank];
    list.push_back({{"local_rank", rank},
                    {"gpu", or_null(each.gpu)},
                    {"entry", or_null(each.entry)},
                    {"nic", or_null(each.nic)},
                    {"numas", each.numas},
                    {"cpus", format_cpu_set(each.cpus)},
                    {"far_cores", each.far_cores}});
  }
  return list;
}

}  // namespace

std::string node_map_json(const NodeMap& map) {
  OrderedJson cores = OrderedJson::array();
  for (const NodeCore& core : map.node.cores) {
    cores.push_back(
        {{"cpus", format_cpu_set(core.cpus)}, {"package", core.package}, {"numa", core.numa}});
  }
  OrderedJson numas = OrderedJson::array();
  for (const NodeNuma& numa : map.node.numas) {
    numas.push_back({{"id", numa.id},
                     {"cpus", format_cpu_set(numa.cpus)},
                     {"memory_bytes", numa.memory_bytes}});
  }
  const OrderedJson json = {{"origin", map.node.origin},
                            {"mask", format_cpu_set(map.mask)},
                            {"visible", {{"variable", map.list_variable}, {"entries", map.list}}},
                            {"cores", std::move(cores)},
                            {"numas", std::move(numas)},
                            {"gpus", gpus_json(map)},
                            {"nics", nics_json(map)},
                            {"fabric", fabric_json(map.fabric)},
                            {"ranks", ranks_json(map)},
                            {"notes", map.matching.notes}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hvd
