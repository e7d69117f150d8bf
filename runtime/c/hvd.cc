// SPDX-License-Identifier: Apache-2.0
#include "hvd/hvd.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/environment.h"
#include "c/build_info.h"
#include "c/guard.h"
#include "c/process.h"
#include "c/request_translation.h"
#include "c/settings.h"

namespace {

using hvd::Code;
using hvd::error;
using hvd::guarded;
using hvd::Process;
using hvd::Status;

Status null_argument(const char* function, const char* argument) {
  return error(Code::kInvalidArgument, "{}: {} is null", function, argument);
}

/// A number about the running engine, or -1.
template <typename Read>
int number(Read&& read) noexcept {
  int value = -1;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    value = read(engine->world());
    return Status::ok();
  }));
  return value;
}

/// How many nodes before `end` have a rank with my local rank.
int nodes_with_my_local_rank(const hvd::Communicator& world, int end) {
  return static_cast<int>(std::count_if(
      world.nodes.begin(), world.nodes.begin() + end,
      [&](const auto& ranks) { return static_cast<int>(ranks.size()) > world.local_rank; }));
}

Status submit(const hvd_request& given, hvd_handle* handle) {
  HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
  HVD_TRY_ASSIGN(auto request, hvd::translate(given));
  HVD_TRY_ASSIGN(*handle, engine->submit(std::move(request)));
  return Status::ok();
}

/// Submits, waits without limit and forgets the operation.
Status run(const hvd_request& given) {
  HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
  HVD_TRY_ASSIGN(auto request, hvd::translate(given));
  request.more = true;  // the wait that follows drives it: no need to wake the engine's thread
  HVD_TRY_ASSIGN(const auto handle, engine->submit(std::move(request)));
  Status status = engine->wait(handle, hvd::kForever);
  engine->release(handle);
  return status;
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
  request.flags = HVD_SUBMIT_MORE;  // the caller waits at once, and so drives it: no need to wake
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
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(auto request, hvd::translate(given));
    request.more = true;  // as in run()
    HVD_TRY_ASSIGN(const auto submitted, engine->submit(std::move(request)));
    Status status = engine->wait(submitted, hvd::kForever);
    if (!status.is_ok()) {
      engine->release(submitted);
      return status;
    }
    *handle = submitted;
    return status;
  });
}

}  // namespace

hvd_status hvd_init(const hvd_init_options* options) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto settings,
                   hvd::settings_from(hvd::Environment::of_process(), options));
    return Process::instance().start(settings);
  });
}

hvd_status hvd_shutdown(double timeout_seconds) noexcept {
  return guarded([&] { return Process::instance().stop(hvd::deadline_after(timeout_seconds)); });
}

hvd_status hvd_set_farewell(const char* cause) noexcept {
  return guarded([&] {
    Process::instance().set_farewell(cause == nullptr ? "" : cause);
    return Status::ok();
  });
}

hvd_status hvd_abort(const char* cause) noexcept {
  return guarded([&]() -> Status {
    Process::instance().abort(cause == nullptr ? "it gave no cause" : cause);
    return Status::ok();
  });
}

int hvd_is_initialized() noexcept { return Process::instance().is_running() ? 1 : 0; }

int hvd_rank() noexcept {
  return number([](const auto& world) { return world.rank; });
}

int hvd_size() noexcept {
  return number([](const auto& world) { return world.size; });
}

int hvd_local_rank() noexcept {
  return number([](const auto& world) { return world.local_rank; });
}

int hvd_local_size() noexcept {
  return number([](const auto& world) { return world.local_size(); });
}

int hvd_cross_rank() noexcept {
  return number([](const auto& world) { return nodes_with_my_local_rank(world, world.node); });
}

int hvd_cross_size() noexcept {
  return number(
      [](const auto& world) { return nodes_with_my_local_rank(world, world.node_count()); });
}

hvd_status hvd_alloc(size_t bytes, void** memory) noexcept {
  return guarded([&]() -> Status {
    if (memory == nullptr) return null_argument("hvd_alloc", "memory");
    HVD_TRY_ASSIGN(*memory, Process::instance().allocate(bytes));
    return Status::ok();
  });
}

hvd_status hvd_free(void* memory) noexcept {
  return guarded([&]() -> Status {
    return memory == nullptr ? Status::ok() : Process::instance().deallocate(memory);
  });
}

hvd_status hvd_submit(const hvd_request* request, hvd_handle* handle) noexcept {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("hvd_submit", "request");
    if (handle == nullptr) return null_argument("hvd_submit", "handle");
    return submit(*request, handle);
  });
}

hvd_status hvd_flush() noexcept {
  return guarded([]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    engine->flush();
    return Status::ok();
  });
}

hvd_status hvd_poll(hvd_handle handle, int* done) noexcept {
  return guarded([&]() -> Status {
    if (done == nullptr) return null_argument("hvd_poll", "done");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const bool is_done, engine->poll(handle));
    *done = is_done ? 1 : 0;
    return Status::ok();
  });
}

hvd_status hvd_wait(hvd_handle handle, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->wait(handle, hvd::deadline_after(timeout_seconds));
  });
}

hvd_status hvd_gathered(hvd_handle handle, uint32_t index, hvd_gather* result) noexcept {
  return guarded([&]() -> Status {
    if (result == nullptr) return null_argument("hvd_gathered", "result");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const hvd::GatherResult* gathered, engine->gathered(handle, index));
    result->data = gathered->begin();
    result->shape = gathered->shape.data();
    result->rows = gathered->rows.data();
    result->dimensions = static_cast<int32_t>(gathered->shape.size());
    result->ranks = static_cast<int32_t>(gathered->rows.size());
    return Status::ok();
  });
}

hvd_status hvd_release(hvd_handle handle) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    engine->release(handle);
    return Status::ok();
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

const char* hvd_last_error() noexcept { return hvd::last_error().c_str(); }

const char* hvd_status_name(hvd_status status) noexcept {
  return hvd::code_name(static_cast<Code>(status)).data();
}

const char* hvd_describe() noexcept {
  thread_local std::string text;
  const hvd_status status = guarded([]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    text = engine->describe();
    return Status::ok();
  });
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.InnerPointer): nothing changes it after the assignment.
  return status == HVD_OK ? text.c_str() : nullptr;
}

const char* hvd_build_info() noexcept {
  // Without memory for one sentence the process is lost anyway.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  static const std::string* const text = new std::string(hvd::build_info());
  return text->c_str();
}

hvd_status hvd_statistics(hvd_counters* statistics) noexcept {
  return guarded([&]() -> Status {
    if (statistics == nullptr) return null_argument("hvd_statistics", "statistics");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    const hvd::Engine::Statistics now = engine->statistics();
    const hvd_counters all{
        .struct_size = std::min(statistics->struct_size, sizeof(hvd_counters)),
        .batches = now.batches,
        .requests = now.requests,
        .bytes = now.bytes,
        .waited_seconds = std::chrono::duration<double>(now.waited).count(),
    };
    std::memcpy(statistics, &all, all.struct_size);
    return Status::ok();
  });
}

hvd_status hvd_timeline_start(const char* path, int mark_batches) noexcept {
  return guarded([&]() -> Status {
    if (path == nullptr) return null_argument("hvd_timeline_start", "path");
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->start_timeline({path, mark_batches != 0});
  });
}

hvd_status hvd_timeline_stop() noexcept {
  return guarded([]() -> Status {
    if (!Process::instance().is_running()) return Status::ok();
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->stop_timeline();
  });
}
