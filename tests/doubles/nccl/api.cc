// SPDX-License-Identifier: Apache-2.0
// NCCL's functions about communicators, memory and errors.
#include <nccl.h>

#include <cstring>

#include "doubles/nccl/api_call.h"
#include "doubles/nccl/star.h"

using double_nccl::ApiCall;
using double_nccl::Bytes;
using double_nccl::Communicator;
using double_nccl::CommunicatorPtr;
using double_nccl::complain;
using double_nccl::driver;
using double_nccl::enter;
using double_nccl::Group;
using double_nccl::Handles;
using double_nccl::Hello;
using double_nccl::Kind;
using double_nccl::Operation;

namespace {

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  if (config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT) return otherwise;
  return config->blocking != 0;
}

bool is_initialised(const ncclConfig_t* config) {
  return config == nullptr || (config->magic == 0xcafebeefU && config->size <= sizeof(*config));
}

Hello hello_of(int rank, int size, const std::string& gpu) {
  Hello hello;
  hello.rank = rank;
  hello.size = size;
  hello.version = double_nccl::version();
  gpu.copy(hello.gpu, sizeof(hello.gpu) - 1);
  return hello;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (const auto failure = enter(__func__, -1)) return *failure;
  *version = double_nccl::version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto failure = enter(__func__, -1)) return *failure;
  *id = double_nccl::make_star();
  return id->internal[0] == '\0' ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (const auto failure = enter(__func__, rank)) return Group::of_this_thread().fail(*failure);
  const auto gpu = double_nccl::current_gpu();
  if (nranks < 1 || rank < 0 || rank >= nranks || !is_initialised(config)) {
    complain("ncclCommInitRankConfig: rank or configuration out of range");
    return Group::of_this_thread().fail(ncclInvalidArgument);
  }
  if (gpu.device < 0) {
    complain("ncclCommInitRankConfig: the thread has no GPU");
    return Group::of_this_thread().fail(ncclUnhandledCudaError);
  }
  const auto made = std::make_shared<Communicator>(hello_of(rank, nranks, gpu.name), gpu,
                                                   is_blocking(config, true));
  *comm = Handles::get().add(made);
  const ncclResult_t result = Group::of_this_thread().add(
      made, [communicator = made.get(), id] { return communicator->connect(id); });
  if (result != ncclSuccess && result != ncclInProgress) {
    Handles::get().remove(*comm);
    *comm = nullptr;
  }
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  *newcomm = nullptr;
  ApiCall call(__func__, comm);
  if (const ncclResult_t error = call.ready(); error != ncclSuccess) return error;
  const CommunicatorPtr& parent = call.communicator();
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return call.refuse("color out of range");
  CommunicatorPtr child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    child = std::make_shared<Communicator>(hello_of(0, 1, parent->gpu().name), parent->gpu(),
                                           is_blocking(config, parent->is_blocking()));
    child->set_outcome(ncclInProgress);
    *newcomm = Handles::get().add(child);
  }
  Operation operation;
  operation.kind = Kind::kSplit;
  operation.root = color;
  operation.key = key;
  return Group::of_this_thread().add(parent, [parent = parent.get(), operation, child] {
    return parent->split(operation, child);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const CommunicatorPtr communicator = Handles::get().find(comm);
  if (communicator == nullptr) {
    complain("ncclCommGetAsyncError: there is no such communicator, or no more");
    return ncclInvalidArgument;
  }
  if (const auto failure = enter(__func__, communicator->rank())) return *failure;
  *error = communicator->poll();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  ApiCall call(__func__, comm);
  if (const ncclResult_t error = call.ready(); error != ncclSuccess) return error;
  if (Handles::get().has_registrations(comm)) {
    return call.refuse("memory is registered still: its network goes with this call");
  }
  call.communicator()->set_finalized();
  return call.communicator()->begin([communicator = call.communicator().get()] {
    if (communicator->drain()) return ncclSuccess;
    const ncclResult_t error = communicator->state();
    return error == ncclInProgress ? ncclInternalError : error;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    ApiCall call(__func__, comm);
    if (call.error() != ncclSuccess) return call.error();
    if (call.communicator()->is_finalized() && call.communicator()->state() == ncclInProgress) {
      call.refuse("before ncclCommFinalize has come to its end");
    } else if (!call.communicator()->drain()) {
      call.refuse("the communicator has an error: only ncclCommAbort ends it");
    } else {
      call.communicator()->leave();
    }
    call.communicator()->abort();
  }
  Handles::get().remove(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const CommunicatorPtr communicator = Handles::get().find(comm);
  if (communicator == nullptr) {
    complain("ncclCommAbort: there is no such communicator, or no more");
    return ncclInvalidArgument;
  }
  if (const auto failure = enter(__func__, communicator->rank())) return *failure;
  Handles::get().remove(comm);
  communicator->abort();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const ApiCall call(__func__, comm);
  if (call.error() == ncclSuccess) *count = call.communicator()->size();
  return call.error();
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const ApiCall call(__func__, comm);
  if (call.error() == ncclSuccess) *device = call.communicator()->gpu().device;
  return call.error();
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const ApiCall call(__func__, comm);
  if (call.error() == ncclSuccess) *rank = call.communicator()->rank();
  return call.error();
}

ncclResult_t ncclMemAlloc(void** memory, size_t size) {
  if (const auto failure = enter(__func__, -1)) return *failure;
  CUdeviceptr address = 0;
  if (driver().allocate == nullptr || driver().allocate(&address, size) != CUDA_SUCCESS) {
    return ncclUnhandledCudaError;
  }
  *memory = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  Handles::get().add_allocation(*memory, size);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  if (const auto failure = enter(__func__, -1)) return *failure;
  if (!Handles::get().remove_allocation(memory)) {
    complain("ncclMemFree of memory that ncclMemAlloc did not give");
    return ncclInvalidArgument;
  }
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  return driver().deallocate(address) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  ApiCall call(__func__, comm);
  if (const ncclResult_t error = call.ready(); error != ncclSuccess) return error;
  *handle = Handles::get().add_registration(comm, buffer, size);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  ApiCall call(__func__, comm);
  if (call.error() != ncclSuccess) return call.error();
  if (call.communicator()->is_finalized()) return call.refuse("the communicator is finalized");
  if (Handles::get().remove_registration(comm, handle, false)) return ncclSuccess;
  return call.refuse("there is no such registration");
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size,
                                    ncclWindow_t* window, int) {
  ApiCall call(__func__, comm);
  if (const ncclResult_t error = call.ready(); error != ncclSuccess) return error;
  if (!Handles::get().is_allocated(buffer, size)) {
    return call.refuse("the memory is not of ncclMemAlloc");
  }
  Operation operation;
  operation.kind = Kind::kWindow;
  operation.count = size;
  operation.key = Handles::get().free_place(comm, size);
  const auto job = [communicator = call.communicator().get(), comm, operation, buffer, window] {
    if (const auto failure = enter("ncclCommWindowRegister later", communicator->rank())) {
      return *failure;
    }
    Bytes answer;
    const ncclResult_t result = communicator->agree(operation, answer);
    if (result != ncclSuccess) return result;
    *window = static_cast<ncclWindow_t>(Handles::get().add_registration(
        comm, buffer, static_cast<std::size_t>(operation.count), operation.key));
    return result;
  };
  // NCCL's own group ends within the call: what goes on is told by ncclCommGetAsyncError alone.
  const ncclResult_t result = Group::of_this_thread().add(call.communicator(), job);
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  ApiCall call(__func__, comm);
  if (call.error() != ncclSuccess) return call.error();
  if (call.communicator()->is_finalized()) return call.refuse("the communicator is finalized");
  if (Handles::get().remove_registration(comm, window, true)) return ncclSuccess;
  return call.refuse("there is no such window");
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return double_nccl::last_error(); }

ncclResult_t ncclGroupStart() {
  if (const auto failure = enter(__func__, -1)) return *failure;
  Group::of_this_thread().start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const auto failure = enter(__func__, -1);
  if (failure) Group::of_this_thread().fail(*failure);
  return Group::of_this_thread().end();
}
