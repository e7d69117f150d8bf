// SPDX-License-Identifier: Apache-2.0
// The collectives of hvd.h that wait for what they submit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/deadline.h"
#include "c/guard.h"
#include "c/process.h"
#include "c/request_key.h"
#include "c/request_translation.h"
#include "hvd/collectives.h"

namespace {

using hvd::Deadline;
using hvd::guarded;
using hvd::null_argument;
using hvd::PendingPtr;
using hvd::Process;
using hvd::RequestKey;
using hvd::Status;

/// Submits and waits. `handle`: of what must be released: still in flight, or with rows to read;
/// else 0.
Status run(const hvd_request& given, Deadline deadline, hvd_handle& handle) {
  handle = 0;
  HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
  const RequestKey bytes(given);
  const auto key = hvd::KeptRequests::key_of(bytes.text());
  if (PendingPtr kept = engine->take_kept(key)) {
    hvd::translate_memory(given, kept->request);
    return engine->run(std::move(kept), deadline, handle);
  }
  HVD_TRY_ASSIGN(auto request, hvd::translate(given));
  return engine->run(std::move(request), key, deadline, handle);
}

/// Submits, waits without limit and forgets the operation.
Status run(const hvd_request& given) {
  hvd_handle handle = 0;
  return run(given, hvd::kForever, handle);
}

/// A flat tensor, from `input` to `output`.
hvd_tensor flat_tensor(const void* input, void* output, const int64_t& count, hvd_dtype dtype) {
  hvd_tensor tensor = {};
  tensor.input = input;
  tensor.output = output;
  tensor.dtype = dtype;
  tensor.dimensions = 1;
  tensor.shape = &count;
  return tensor;
}

hvd_request request_of(const char* name, hvd_kind kind, const hvd_tensor* tensor) {
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.name = name;
  request.kind = kind;
  request.tensors = tensor;
  request.tensor_count = tensor == nullptr ? 0 : 1;
  return request;
}

/// One tensor of rows whose result the library makes.
struct Rows {
  int64_t shape[2];
  hvd_tensor tensor;

  Rows(const void* input, size_t rows, size_t row_count, hvd_dtype dtype)
      : shape{static_cast<int64_t>(rows), static_cast<int64_t>(row_count)},
        tensor(flat_tensor(input, nullptr, shape[0], dtype)) {
    tensor.dimensions = 2;
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void set_splits(const int64_t* splits, int size) {
    tensor.splits = splits;
    tensor.split_count = static_cast<size_t>(size);
  }
};

/// Rows that leave; a negative split is found where all splits are checked.
size_t sum_of(const int64_t* splits, int size) {
  int64_t sum = 0;
  for (int rank = 0; rank < size; ++rank) {
    sum += std::max<int64_t>(splits[rank], 0);
  }
  return static_cast<size_t>(sum);
}

/// Submits, waits without limit and keeps the operation, for hvd_gathered().
hvd_status run_for_rows(const hvd_request& given, const char* function, hvd_handle* handle) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return null_argument(function, "handle");
    return run(given, hvd::kForever, *handle);
  });
}

}  // namespace

hvd_status hvd_run(const hvd_request* request, double timeout_seconds,
                   hvd_handle* handle) noexcept {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("hvd_run", "request");
    if (handle == nullptr) return null_argument("hvd_run", "handle");
    return run(*request, hvd::deadline_after(timeout_seconds), *handle);
  });
}

hvd_status hvd_allreduce(const char* name, const void* input, void* output, size_t count,
                         hvd_dtype dtype, hvd_reduce_op op) noexcept {
  return guarded([&] {
    const auto extent = static_cast<int64_t>(count);
    const hvd_tensor tensor = flat_tensor(input, output, extent, dtype);
    hvd_request request = request_of(name, HVD_ALLREDUCE, &tensor);
    request.reduce_op = op;
    return run(request);
  });
}

hvd_status hvd_broadcast(const char* name, void* buffer, size_t count, hvd_dtype dtype,
                         int root) noexcept {
  return guarded([&] {
    const auto extent = static_cast<int64_t>(count);
    const hvd_tensor tensor = flat_tensor(buffer, buffer, extent, dtype);
    hvd_request request = request_of(name, HVD_BROADCAST, &tensor);
    request.root = root;
    return run(request);
  });
}

hvd_status hvd_allgather(const char* name, const void* input, size_t rows, size_t row_count,
                         hvd_dtype dtype, hvd_handle* handle) noexcept {
  const Rows given(input, rows, row_count, dtype);
  return run_for_rows(request_of(name, HVD_ALLGATHER, &given.tensor), "hvd_allgather", handle);
}

hvd_status hvd_reduce(const char* name, const void* input, void* output, size_t count,
                      hvd_dtype dtype, hvd_reduce_op op, int root) noexcept {
  return guarded([&] {
    Rows given(input, count, 1, dtype);
    given.tensor.output = output;
    hvd_request request = request_of(name, HVD_REDUCE, &given.tensor);
    request.reduce_op = op;
    request.root = root;
    return run(request);
  });
}

hvd_status hvd_reducescatter(const char* name, const void* input, size_t rows, size_t row_count,
                             hvd_dtype dtype, hvd_reduce_op op, hvd_handle* handle) noexcept {
  const Rows given(input, rows, row_count, dtype);
  hvd_request request = request_of(name, HVD_REDUCESCATTER, &given.tensor);
  request.reduce_op = op;
  return run_for_rows(request, "hvd_reducescatter", handle);
}

hvd_status hvd_alltoall(const char* name, const void* input, const int64_t* splits,
                        size_t row_count, hvd_dtype dtype, hvd_handle* handle) noexcept {
  if (splits == nullptr) return guarded([] { return null_argument("hvd_alltoall", "splits"); });
  const int size = hvd_size();
  if (size < 0) return HVD_ABORTED;
  Rows given(input, sum_of(splits, size), row_count, dtype);
  given.set_splits(splits, size);
  return run_for_rows(request_of(name, HVD_ALLTOALL, &given.tensor), "hvd_alltoall", handle);
}

hvd_status hvd_gather_rows(const char* name, const void* input, size_t rows, size_t row_count,
                           hvd_dtype dtype, int root, hvd_handle* handle) noexcept {
  const Rows given(input, rows, row_count, dtype);
  hvd_request request = request_of(name, HVD_GATHER, &given.tensor);
  request.root = root;
  return run_for_rows(request, "hvd_gather_rows", handle);
}

hvd_status hvd_scatter_rows(const char* name, const void* input, const int64_t* splits,
                            size_t row_count, hvd_dtype dtype, int root,
                            hvd_handle* handle) noexcept {
  const int size = hvd_size();
  if (size < 0) return HVD_ABORTED;
  const bool is_root = hvd_rank() == root;
  if (is_root && splits == nullptr) {
    return guarded([] { return null_argument("hvd_scatter_rows", "splits"); });
  }
  Rows given(input, is_root ? sum_of(splits, size) : 0, row_count, dtype);
  if (is_root) given.set_splits(splits, size);
  hvd_request request = request_of(name, HVD_SCATTER, &given.tensor);
  request.root = root;
  return run_for_rows(request, "hvd_scatter_rows", handle);
}

hvd_status hvd_barrier() noexcept {
  return guarded([] { return run(request_of(nullptr, HVD_BARRIER, nullptr)); });
}
