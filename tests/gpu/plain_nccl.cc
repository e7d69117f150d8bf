// SPDX-License-Identifier: Apache-2.0
#include "gpu/plain_nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hvd/hvd.hpp"

namespace hvd_test {

struct PlainNccl::Calls {
  Calls() {
    const char* const named = std::getenv("HVD_NCCL_LIBRARY");
    library = ::dlopen(named == nullptr ? "libnccl.so.2" : named, RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    find(get_unique_id, "ncclGetUniqueId");
    find(comm_init_rank_config, "ncclCommInitRankConfig");
    find(comm_get_async_error, "ncclCommGetAsyncError");
    find(comm_finalize, "ncclCommFinalize");
    find(comm_destroy, "ncclCommDestroy");
    find(all_reduce, "ncclAllReduce");
    find(get_error_string, "ncclGetErrorString");
  }
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("NCCL has no ") + name);
  }

  void* library = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
};

PlainNccl::PlainNccl(bool blocks) : calls_(std::make_unique<Calls>()) {
  ncclUniqueId id{};
  if (hvd_rank() == 0) check(calls_->get_unique_id(&id));
  std::vector<std::uint8_t> bytes(id.internal, id.internal + sizeof id.internal);
  hvd::broadcast<std::uint8_t>("unique id", bytes, 0);
  std::copy(bytes.begin(), bytes.end(), id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocks ? 1 : 0;
  check(calls_->comm_init_rank_config(&comm_, hvd_size(), id, hvd_rank(), &config));
  while (!is_settled()) std::this_thread::yield();
}

PlainNccl::~PlainNccl() {
  if (comm_ == nullptr) return;
  static_cast<void>(calls_->comm_finalize(comm_));
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (calls_->comm_get_async_error(comm_, &state) != ncclSuccess) break;
  }
  static_cast<void>(calls_->comm_destroy(comm_));
}

bool PlainNccl::is_settled() const {
  ncclResult_t state = ncclSuccess;
  check(calls_->comm_get_async_error(comm_, &state));
  check(state);
  return state == ncclSuccess;
}

void PlainNccl::allreduce(const float* input, float* output, std::size_t count, CUstream stream) {
  check(calls_->all_reduce(input, output, count, ncclFloat32, ncclSum, comm_,
                           reinterpret_cast<cudaStream_t>(stream)));
}

void PlainNccl::check(ncclResult_t result) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw std::runtime_error(std::string("NCCL: ") + calls_->get_error_string(result));
}

}  // namespace hvd_test
