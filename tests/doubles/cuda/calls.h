// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace double_cuda {

/// What a function needs before it does anything.
enum class Needs {
  kNothing,
  kDriver,   ///< cuInit was called, in this process.
  kContext,  ///< And a context is current, whose GPU is well.
};

/// One function of the driver: counted, and made to fail. Thread-safe.
class Call {
 public:
  explicit Call(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  /// Counts the call; what it fails with.
  CUresult begin(Needs needs);

 private:
  friend class Calls;
  struct Fault {
    std::uint64_t at;  ///< Of count_; 0: always.
    CUresult code;
    bool hang;
  };
  std::string name_;
  std::uint64_t count_ = 0;
  std::vector<Fault> faults_;
};

/// The function by its name in the library; lives as long as the process.
Call& call_named(const char* name);
/// One more of `name`, which is not a function.
void count(const char* name);
/// True once after a call that shall hang: what it puts into a stream does.
bool take_hang();
void hang_next_work();
/// Seeded by double_delay(); 0: no delay.
std::uint64_t next_delay_microseconds();

}  // namespace double_cuda

#define DOUBLE_QUOTE(text) #text
/// The begin of every function; macros of cuda.h in the name are expanded.
#define DOUBLE_BEGIN(function, needs) DOUBLE_BEGIN_NAMED(DOUBLE_QUOTE(function), needs)
#define DOUBLE_BEGIN_NAMED(name, needs)                                    \
  static ::double_cuda::Call& this_call = ::double_cuda::call_named(name); \
  if (const CUresult fault = this_call.begin(::double_cuda::Needs::needs); \
      fault != CUDA_SUCCESS) {                                             \
    return fault;                                                          \
  }                                                                        \
  static_assert(true)
