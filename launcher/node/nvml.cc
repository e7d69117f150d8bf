// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hvd {
namespace {

using Device = void*;
using Text = std::array<char, 96>;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, and that of names

/// The functions of NVML's stable interface that are used; each returns 0 for success.
struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_bus_id)(const char* bus_id, Device* device) = nullptr;
  int (*uuid)(Device device, char* text, unsigned size) = nullptr;
  int (*name)(Device device, char* text, unsigned size) = nullptr;
  // Since driver 450; without them there are no MIG instances.
  int (*mig_mode)(Device device, unsigned* current, unsigned* pending) = nullptr;
  int (*most_mig)(Device device, unsigned* count) = nullptr;
  int (*mig_by_index)(Device device, unsigned index, Device* instance) = nullptr;
  int (*peer_status)(Device one, Device other, int capability, int* status) = nullptr;

  bool is_complete() const {
    return init != nullptr && shutdown != nullptr && by_bus_id != nullptr && uuid != nullptr &&
           name != nullptr;
  }
  bool knows_mig() const {
    return mig_mode != nullptr && most_mig != nullptr && mig_by_index != nullptr;
  }
};

template <typename Function>
void look_up(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
}

Nvml load(const std::string& path) {
  Nvml nvml;
  // Left in place: it has threads and exit handlers of its own.
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nvml;
  look_up(library, "nvmlInit_v2", nvml.init);
  look_up(library, "nvmlShutdown", nvml.shutdown);
  look_up(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus_id);
  look_up(library, "nvmlDeviceGetUUID", nvml.uuid);
  look_up(library, "nvmlDeviceGetName", nvml.name);
  look_up(library, "nvmlDeviceGetMigMode", nvml.mig_mode);
  look_up(library, "nvmlDeviceGetMaxMigDeviceCount", nvml.most_mig);
  look_up(library, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.mig_by_index);
  look_up(library, "nvmlDeviceGetP2PStatus", nvml.peer_status);
  return nvml;
}

using TextFunction = int (*)(Device device, char* text, unsigned size);

std::string ask(TextFunction function, Device device) {
  Text text{};
  if (function(device, text.data(), text.size() - 1) != 0) return {};
  return text.data();
}

void add_mig(const Nvml& nvml, Device device, NodeGpu& gpu) {
  unsigned current = 0;
  unsigned pending = 0;
  unsigned most = 0;
  if (nvml.mig_mode(device, &current, &pending) != 0 || current != 1) return;
  if (nvml.most_mig(device, &most) != 0) return;
  constexpr unsigned kMost = 64;  // There are seven today.
  for (unsigned index = 0; index < std::min(most, kMost); ++index) {
    Device instance = nullptr;
    if (nvml.mig_by_index(device, index, &instance) != 0) continue;  // a gap, or another job's
    std::string uuid = ask(nvml.uuid, instance);
    if (!uuid.empty()) gpu.mig_uuids.push_back(std::move(uuid));
  }
}

/// Of nvmlGpuP2PStatus_t.
std::string peer_reason(int status) {
  switch (status) {
    case 1:
      return "the chipset does not support it";
    case 2:
      return "the GPUs do not support it";
    case 3:
      return "the topology of the I/O hubs does not support it";
    case 4:
      return "a setting of the driver disables it";
    default:
      return "it is not supported";
  }
}

}  // namespace

std::optional<PeerAccess> ask_peer_access(const std::string& library,
                                          const NodeTopology& topology) {
  if (topology.gpus.size() < 2) return std::nullopt;
  const Nvml nvml = load(library);
  if (!nvml.is_complete() || nvml.peer_status == nullptr || nvml.init() != 0) return std::nullopt;
  struct Known {
    Device device;
    const std::string* bus_id;
  };
  std::vector<Known> known;
  for (const NodeGpu& gpu : topology.gpus) {
    Device device = nullptr;
    if (gpu.vendor != GpuVendor::kNvidia) continue;
    if (nvml.by_bus_id(gpu.bus_id.c_str(), &device) == 0) known.push_back({device, &gpu.bus_id});
  }
  PeerAccess access{static_cast<int>(known.size()), {}};
  bool all_answered = known.size() >= 2;
  for (std::size_t other = 1; other < known.size(); ++other) {
    for (std::size_t one = 0; one < other; ++one) {
      int status = 0;
      constexpr int kRead = 0;  // NVML_P2P_CAPS_INDEX_READ
      const int asked = nvml.peer_status(known[one].device, known[other].device, kRead, &status);
      all_answered = all_answered && asked == 0;
      if (asked != 0 || status == 0) continue;
      access.missing.push_back({*known[one].bus_id, *known[other].bus_id, peer_reason(status)});
    }
  }
  (void)nvml.shutdown();
  return all_answered ? std::optional(std::move(access)) : std::nullopt;
}

void add_nvml_names(const std::string& library, NodeTopology& topology) {
  const bool has_nvidia =
      std::any_of(topology.gpus.begin(), topology.gpus.end(),
                  [](const NodeGpu& gpu) { return gpu.vendor == GpuVendor::kNvidia; });
  if (!has_nvidia) return;
  const Nvml nvml = load(library);
  if (!nvml.is_complete() || nvml.init() != 0) return;
  for (NodeGpu& gpu : topology.gpus) {
    Device device = nullptr;
    if (gpu.vendor != GpuVendor::kNvidia) continue;
    if (nvml.by_bus_id(gpu.bus_id.c_str(), &device) != 0) continue;
    if (gpu.uuid.empty()) gpu.uuid = ask(nvml.uuid, device);
    if (gpu.model.empty()) gpu.model = ask(nvml.name, device);
    if (nvml.knows_mig() && gpu.mig_uuids.empty()) add_mig(nvml, device, gpu);
  }
  (void)nvml.shutdown();
}

}  // namespace hvd
