// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <utility>

#include "devices.h"
#include "double_cuda.h"
#include "memory.h"
#include "streams.h"

namespace double_cuda {
namespace {

thread_local bool hang_next = false;

}  // namespace

/// All functions that were called or named. Leaked: threads of streams go on until the process
/// ends.
class Calls {
 public:
  static Calls& all() {
    static Calls* const calls = new Calls;
    return *calls;
  }

  Call& named(const std::string& name) {
    std::lock_guard lock(mutex_);
    return find(name);
  }

  CUresult begin(Call& call) {
    std::lock_guard lock(mutex_);
    call.count_++;
    for (auto fault = call.faults_.begin(); fault != call.faults_.end(); ++fault) {
      if (fault->at != 0 && fault->at != call.count_) continue;
      const Call::Fault met = *fault;
      if (met.at != 0) call.faults_.erase(fault);
      hang_next = met.hang;
      return met.hang ? CUDA_SUCCESS : met.code;
    }
    return CUDA_SUCCESS;
  }

  void add_fault(const std::string& name, std::uint64_t n, CUresult code, bool hang) {
    std::lock_guard lock(mutex_);
    Call& call = find(name);
    call.faults_.push_back({n == 0 ? 0 : call.count_ + n, code, hang});
  }

  std::uint64_t calls(const std::string& name) {
    std::lock_guard lock(mutex_);
    return find(name).count_;
  }

  void reset() {
    std::lock_guard lock(mutex_);
    microseconds_ = 0;
    for (auto& [name, call] : calls_) {
      call->count_ = 0;
      call->faults_.clear();
    }
  }

  void delay(std::uint64_t seed, std::uint64_t microseconds) {
    std::lock_guard lock(mutex_);
    random_.seed(seed);
    microseconds_ = microseconds;
  }

  std::uint64_t next_delay() {
    std::lock_guard lock(mutex_);
    if (microseconds_ == 0) return 0;
    return std::uniform_int_distribution<std::uint64_t>(0, microseconds_)(random_);
  }

  void write(std::string path) {
    if (const auto place = path.find("{pid}"); place != std::string::npos) {
      path.replace(place, 5, std::to_string(::getpid()));
    }
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return;
    std::lock_guard lock(mutex_);
    for (const auto& [name, call] : calls_) {
      std::fprintf(file, "%s %llu\n", name.c_str(), static_cast<unsigned long long>(call->count_));
    }
    std::fclose(file);
  }

 private:
  Calls() {
    if (const char* const text = std::getenv("HVD_DOUBLE_FAIL")) read_faults(text);
    if (const char* const text = std::getenv("HVD_DOUBLE_DELAY")) {
      unsigned long long seed = 0;
      unsigned long long microseconds = 0;
      if (std::sscanf(text, "%llu:%llu", &seed, &microseconds) == 2) delay(seed, microseconds);
    }
    if (std::getenv("HVD_DOUBLE_CALLS") != nullptr) {
      std::atexit([] { all().write(std::getenv("HVD_DOUBLE_CALLS")); });
    }
  }

  void read_faults(const std::string& text) {
    std::stringstream entries(text);
    std::string entry;
    while (std::getline(entries, entry, ',')) {
      std::stringstream fields(entry);
      std::string name;
      std::string n;
      std::string code;
      std::getline(fields, name, ':');
      std::getline(fields, n, ':');
      std::getline(fields, code);
      if (code.empty()) continue;
      const bool hang = code == "hang";
      add_fault(name, std::strtoull(n.c_str(), nullptr, 10),
                hang ? CUDA_SUCCESS : static_cast<CUresult>(std::atoi(code.c_str())), hang);
    }
  }

  Call& find(const std::string& name) {
    auto found = calls_.find(name);
    if (found == calls_.end()) {
      const std::string known = newer_version(name);
      found = calls_.try_emplace(known, nullptr).first;
      if (found->second == nullptr) found->second = std::make_unique<Call>(known);
    }
    return *found->second;
  }

  /// cuda.h's name of a function stands for its newest version.
  static std::string newer_version(const std::string& name) {
    // Leaked: the driver is called until the very end of the process.
    static const auto& newer = *new std::map<std::string, std::string>{
#define DOUBLE_NEWER(function) {#function, DOUBLE_QUOTE(function)}
        DOUBLE_NEWER(cuCtxPopCurrent),      DOUBLE_NEWER(cuCtxPushCurrent),
        DOUBLE_NEWER(cuDeviceGetUuid),      DOUBLE_NEWER(cuDevicePrimaryCtxRelease),
        DOUBLE_NEWER(cuEventDestroy),       DOUBLE_NEWER(cuGraphInstantiate),
        DOUBLE_NEWER(cuMemAlloc),           DOUBLE_NEWER(cuMemFree),
        DOUBLE_NEWER(cuMemGetAddressRange), DOUBLE_NEWER(cuStreamBeginCapture),
        DOUBLE_NEWER(cuStreamDestroy),
    };
    const auto found = newer.find(name);
    return found == newer.end() ? name : found->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Call>> calls_;
  std::mt19937_64 random_;
  std::uint64_t microseconds_ = 0;
};

CUresult Call::begin(Needs needs) {
  if (const CUresult fault = Calls::all().begin(*this); fault != CUDA_SUCCESS) return fault;
  if (needs == Needs::kNothing) return CUDA_SUCCESS;
  if (has_driver_ended()) {
    if (std::getenv("HVD_DOUBLE_TELL_LATE") != nullptr) {
      std::fprintf(stderr, "double of the driver: %s after its end\n", name_.c_str());
    }
    return CUDA_ERROR_DEINITIALIZED;
  }
  if (!is_initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::kDriver) return CUDA_SUCCESS;
  const CUcontext context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->references.load() == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->fault.load();
}

Call& call_named(const char* name) { return Calls::all().named(name); }
void count(const char* name) { (void)Calls::all().begin(Calls::all().named(name)); }
bool take_hang() { return std::exchange(hang_next, false); }
void hang_next_work() { hang_next = true; }
std::uint64_t next_delay_microseconds() { return Calls::all().next_delay(); }

}  // namespace double_cuda

using double_cuda::Calls;

void double_fail(const char* function, std::uint64_t n, CUresult code) {
  Calls::all().add_fault(function, n, code, false);
}
void double_hang_at(const char* function, std::uint64_t n) {
  Calls::all().add_fault(function, n, CUDA_SUCCESS, true);
}
void double_delay(std::uint64_t seed, std::uint64_t microseconds) {
  Calls::all().delay(seed, microseconds);
}
std::uint64_t double_calls(const char* function) { return Calls::all().calls(function); }
void double_reset() {
  Calls::all().reset();
  double_cuda::release_streams();
  double_cuda::heal_devices();
  double_cuda::free_waits() = true;
}
