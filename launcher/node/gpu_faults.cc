// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/gpu_faults.h"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

#include "base/format.h"
#include "base/mutex.h"
#include "base/start_thread.h"

namespace hvd {
namespace {

using Device = void*;
using EventSet = void*;

/// nvmlEventData_t.
struct Event {
  Device device = nullptr;
  unsigned long long type = 0;
  unsigned long long data = 0;
  unsigned gpu_instance = 0;  ///< Of MIG; kNoInstance: all of the GPU.
  unsigned compute_instance = 0;
};

constexpr int kNoEvent = 10;                     // NVML_ERROR_TIMEOUT
constexpr unsigned long long kLostMemory = 0x2;  // nvmlEventTypeDoubleBitEccError
constexpr unsigned long long kXid = 0x8;         // nvmlEventTypeXidCriticalError
constexpr unsigned kNoInstance = 0xFFFFFFFF;
constexpr unsigned kWaitMilliseconds = 10'000;  // Each time; nobody waits for the thread.
constexpr std::chrono::seconds kExplains{60};   // So long after a fault programs end of it.
constexpr std::size_t kMostFaults = 64;         // The last ones.

/// The functions of NVML's stable interface that are used; each returns 0 for success.
struct NvmlEvents {
  int (*init)() = nullptr;
  int (*by_bus_id)(const char* bus_id, Device* device) = nullptr;
  int (*by_uuid)(const char* uuid, Device* device) = nullptr;
  int (*of_mig)(Device instance, Device* device) = nullptr;
  int (*instance_id)(Device instance, unsigned* id) = nullptr;
  int (*create_set)(EventSet* set) = nullptr;
  int (*listen)(Device device, unsigned long long types, EventSet set) = nullptr;
  int (*wait)(EventSet set, Event* event, unsigned milliseconds) = nullptr;

  bool is_complete() const {
    return init != nullptr && by_bus_id != nullptr && by_uuid != nullptr && create_set != nullptr &&
           listen != nullptr && wait != nullptr;
  }
};

NvmlEvents load_events(const std::string& path) {
  NvmlEvents nvml;
  // Left in place, as the thread that waits in it is.
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nvml;
  const auto look_up = [&](const char* symbol, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
  };
  look_up("nvmlInit_v2", nvml.init);
  look_up("nvmlDeviceGetHandleByPciBusId_v2", nvml.by_bus_id);
  look_up("nvmlDeviceGetHandleByUUID", nvml.by_uuid);
  look_up("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", nvml.of_mig);
  look_up("nvmlDeviceGetGpuInstanceId", nvml.instance_id);
  look_up("nvmlEventSetCreate", nvml.create_set);
  look_up("nvmlDeviceRegisterEvents", nvml.listen);
  look_up("nvmlEventSetWait_v2", nvml.wait);
  return nvml;
}

/// A GPU that is listened to.
struct WatchedGpu {
  Device device = nullptr;  ///< Of an instance (MIG) the GPU around it, which has the events.
  unsigned instance = kNoInstance;

  /// Another instance's fault is another program's.
  bool is_meant_by(const Event& event) const {
    return event.device == device &&
           (instance == kNoInstance || event.gpu_instance == kNoInstance ||
            event.gpu_instance == instance);
  }
};

/// The GPU of that name; without a device: there is none.
WatchedGpu gpu_named(const NvmlEvents& nvml, const std::string& gpu) {
  Device device = nullptr;
  const bool is_mig = gpu.starts_with("MIG-");
  const bool is_uuid = is_mig || gpu.starts_with("GPU-");
  const int found =
      is_uuid ? nvml.by_uuid(gpu.c_str(), &device) : nvml.by_bus_id(gpu.c_str(), &device);
  if (found != 0) return {};
  if (!is_mig) return {device, kNoInstance};
  WatchedGpu known;
  const bool is_known = nvml.of_mig != nullptr && nvml.instance_id != nullptr &&
                        nvml.of_mig(device, &known.device) == 0 &&
                        nvml.instance_id(device, &known.instance) == 0;
  return is_known ? known : WatchedGpu{};
}

std::string describe_event(const Event& event) {
  return event.type == kLostMemory ? "an error of its memory that ECC cannot mend"
                                   : describe_xid(event.data);
}

}  // namespace

struct GpuFaults::Heard {
  struct Fault {
    std::string gpu;
    std::string text;
    Clock::time_point at;
  };

  Mutex mutex;
  std::vector<Fault> faults HVD_GUARDED_BY(mutex);

  void add(Fault fault) {
    const Lock lock(mutex);
    if (faults.size() == kMostFaults) faults.erase(faults.begin());
    faults.push_back(std::move(fault));
  }
};

void GpuFaults::listen(const std::string& library, const std::vector<std::string>& gpus) {
  if (gpus.empty() || heard_ != nullptr) return;
  heard_ = std::make_shared<Heard>();
  auto listener = start_thread([library, gpus, heard = std::weak_ptr(heard_)] {
    const NvmlEvents nvml = load_events(library);
    EventSet set = nullptr;
    if (!nvml.is_complete() || nvml.init() != 0 || nvml.create_set(&set) != 0) return;
    std::vector<std::pair<WatchedGpu, std::string>> known;
    for (const std::string& gpu : gpus) {
      const WatchedGpu found = gpu_named(nvml, gpu);
      if (found.device == nullptr) continue;
      if (nvml.listen(found.device, kLostMemory | kXid, set) == 0) known.emplace_back(found, gpu);
    }
    while (!known.empty()) {
      Event event;
      const int waited = nvml.wait(set, &event, kWaitMilliseconds);
      const auto keeps = heard.lock();
      if (keeps == nullptr || (waited != 0 && waited != kNoEvent)) return;
      for (const auto& [one, gpu] : known) {
        if (waited != 0 || !one.is_meant_by(event)) continue;
        keeps->add({gpu, describe_event(event), Clock::now()});
      }
    }
  });
  if (listener.is_ok()) listener.value().detach();
}

std::string GpuFaults::explain_end(const std::string& gpu, Clock::time_point now) const {
  if (heard_ == nullptr) return "";
  const Lock lock(heard_->mutex);
  for (const Heard::Fault& fault : heard_->faults) {
    if (now - fault.at > kExplains || (!gpu.empty() && fault.gpu != gpu)) continue;
    return format_text(", after {} {} reported {}", gpu.empty() ? "GPU" : "its GPU", fault.gpu,
                       fault.text);
  }
  return "";
}

}  // namespace hvd
