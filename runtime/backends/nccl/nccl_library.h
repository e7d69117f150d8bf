// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "nccl_vendor.h"

// The functions that NCCL 2.18 has: member of NcclCalls, symbol.
#define HVD_NCCL_REQUIRED(X)                             \
  X(get_version, ncclGetVersion)                         \
  X(get_unique_id, ncclGetUniqueId)                      \
  X(get_error_string, ncclGetErrorString)                \
  X(get_last_error, ncclGetLastError)                    \
  X(comm_init_rank_config, ncclCommInitRankConfig)       \
  X(comm_get_async_error, ncclCommGetAsyncError)         \
  X(comm_finalize, ncclCommFinalize)                     \
  X(comm_destroy, ncclCommDestroy)                       \
  X(comm_abort, ncclCommAbort)                           \
  X(red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum) \
  X(red_op_destroy, ncclRedOpDestroy)                    \
  X(group_start, ncclGroupStart)                         \
  X(group_end, ncclGroupEnd)                             \
  X(all_reduce, ncclAllReduce)                           \
  X(reduce, ncclReduce)                                  \
  X(reduce_scatter, ncclReduceScatter)                   \
  X(all_gather, ncclAllGather)                           \
  X(broadcast, ncclBroadcast)                            \
  X(send, ncclSend)                                      \
  X(recv, ncclRecv)

// Those of newer versions: member, symbol, type. Spelled out, since older headers lack them.
#define HVD_NCCL_OPTIONAL(X)                                                               \
  X(mem_alloc, ncclMemAlloc, ncclResult_t(void**, std::size_t)) /* 2.19 */                 \
  X(mem_free, ncclMemFree, ncclResult_t(void*))                                            \
  X(comm_register, ncclCommRegister, ncclResult_t(ncclComm_t, void*, std::size_t, void**)) \
  X(comm_deregister, ncclCommDeregister, ncclResult_t(ncclComm_t, void*))                  \
  X(comm_window_register, ncclCommWindowRegister, /* 2.27 */                               \
    ncclResult_t(ncclComm_t, void*, std::size_t, ncclWindow_vidmem**, int))                \
  X(comm_window_deregister, ncclCommWindowDeregister, ncclResult_t(ncclComm_t, ncclWindow_vidmem*))

struct ncclWindow_vidmem;  ///< NCCL's handle of a window points to it; older headers have none.

namespace hvd {

/// The functions of a loaded NCCL; the optional ones are null where it has none.
struct NcclCalls {
#define HVD_NCCL_MEMBER(member, symbol) decltype(&symbol) member = nullptr;
  HVD_NCCL_REQUIRED(HVD_NCCL_MEMBER)
#undef HVD_NCCL_MEMBER
#define HVD_NCCL_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  HVD_NCCL_OPTIONAL(HVD_NCCL_MEMBER)
#undef HVD_NCCL_MEMBER
};

/// Which file is NCCL in this process, and why.
struct NcclSource {
  std::string path;
  std::string reason;
  bool is_loaded = false;  ///< It is in the process already.

  /// Two copies in one process would fight over the same GPUs: `loaded`, the one that is in the
  /// process, comes first, then `wanted` (HVD_NCCL_LIBRARY), then whatever the system finds. Empty
  /// texts: there is none.
  static NcclSource choose(std::string_view loaded, std::string_view wanted);
};

/// The path of the NCCL that this process has loaded, under whatever name; empty: none.
std::string loaded_nccl_path();
/// 22809 for 2.28.9: of the NCCL that this process has loaded, else of the headers of this build.
int nccl_version_here();
/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

/// NCCL, loaded for as long as the process lives. Immutable after construction.
class NcclLibrary {
 public:
  static constexpr int kOrdering = 22600;  ///< 2.26: NCCL_LAUNCH_ORDER_IMPLICIT.
  /// 2.29: windows connect the ranks of several nodes where the fabric has GIN.
  static constexpr int kConnectingWindows = 22900;
  static constexpr int kOldest = 21800;  ///< 2.18: groups and splits of non-blocking communicators.

  /// That of the process, else `wanted`, else the one that is installed.
  /// kUnsupported, with what to do, where there is none or one that is too old.
  static Result<NcclLibrary> open(const std::string& wanted);

  const NcclCalls& calls() const { return calls_; }
  int version() const { return version_; }
  const std::string& path() const { return source_.path; }
  /// "NCCL 2.28.9 (/usr/lib/libnccl.so.2: the process had loaded it)".
  std::string describe() const;

 private:
  NcclCalls calls_;
  NcclSource source_;
  int version_ = 0;
};

}  // namespace hvd
