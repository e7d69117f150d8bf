// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cpu_set.h"

namespace hvd {

/// One core of the node, usable or not.
struct NodeCore {
  CpuSet cpus;      ///< Its hardware threads, ascending; the first is the one without SMT.
  int package = 0;  ///< Socket.
  int numa = 0;     ///< NUMA node nearest to it, as the kernel counts.
};

/// One NUMA node. Memory of a GPU that the kernel shows as a node (Grace Hopper) is not here.
struct NodeNuma {
  int id = 0;   ///< As the kernel counts.
  CpuSet cpus;  ///< CPUs nearest to it.
  std::uint64_t memory_bytes = 0;
};

enum class GpuVendor { kNvidia, kAmd, kIntel };

/// One GPU as the job sees devices: a whole GPU, or one GCD of an MI250X.
struct NodeGpu {
  int index = 0;       ///< In PCI bus order (CUDA_DEVICE_ORDER=PCI_BUS_ID), 0..count-1.
  std::string bus_id;  ///< "0000:07:00.0", lower case.
  GpuVendor vendor = GpuVendor::kNvidia;
  std::string model;                   ///< "NVIDIA H100"; empty: unknown.
  std::string uuid;                    ///< "GPU-…"; empty: unknown (no NVML).
  std::vector<std::string> mig_uuids;  ///< "MIG-…", in order; empty: not partitioned.
  int numa = -1;                       ///< NUMA node nearest to it; -1: the firmware does not say.
  CpuSet near_cpus;                    ///< CPUs nearest to it; empty: not known.
};

/// One network port that a job's traffic may use.
struct NodeNic {
  std::string name;     ///< Network interface ("ib0", "hsn0"); empty: none.
  std::string device;   ///< RDMA device ("mlx5_0", "hfi1_0", "cxi0"); empty: none.
  std::string bus_id;   ///< "0000:0c:00.0"; empty: virtual.
  std::string driver;   ///< "mlx5_core", "hfi1", "cxi_core", "efa", ...
  int port = 1;         ///< Of the RDMA device.
  std::string link;     ///< "InfiniBand" or "Ethernet" as the port says; empty: it does not.
  double gigabits = 0;  ///< Rate of the port per second; 0: unknown.
  bool is_up = true;
  int numa = -1;  ///< As for a GPU.
};

/// How far two PCI devices are from each other, nearest first (NCCL's words PIX/PXB, PHB, SYS).
enum class PciDistance { kSwitch, kHostBridge, kNuma, kSystem };

/// One node's hardware as the job may use it. Read from the machine, or from hwloc XML and a sysfs
/// tree in tests.
struct NodeTopology {
  std::string origin;           ///< "this machine", or the file it was read from.
  std::vector<NodeCore> cores;  ///< hwloc's logical order: neighbours share caches.
  std::vector<NodeNuma> numas;
  std::vector<NodeGpu> gpus;                         ///< In PCI bus order.
  std::vector<NodeNic> nics;                         ///< By name, then device.
  std::vector<std::vector<PciDistance>> gpu_to_nic;  ///< [gpu][nic]
};

}  // namespace hvd
