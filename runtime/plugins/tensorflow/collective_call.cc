// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/collective_call.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/tensorflow/call_counts.h"
#include "plugins/tensorflow/element_types.h"
#include "plugins/tensorflow/failure.h"

namespace hvd::tensorflow {

namespace {

struct TensorDeleter {
  void operator()(TF_Tensor* tensor) const { tf().TF_DeleteTensor(tensor); }
};
using OwnedTensor = std::unique_ptr<TF_Tensor, TensorDeleter>;

using Shape = std::vector<std::int64_t>;

Shape shape_of(const TF_Tensor* tensor) {
  Shape shape(static_cast<std::size_t>(tf().TF_NumDims(tensor)));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = tf().TF_Dim(tensor, static_cast<int>(i));
  }
  return shape;
}

std::size_t elements_of(const std::int64_t* shape, std::size_t dimensions) {
  std::size_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) elements *= static_cast<std::size_t>(shape[i]);
  return elements;
}

/// A tensor on its way. The memory of both is TensorFlow's.
struct Travelling {
  OwnedTensor input;  ///< Null where its memory became the output's.
  OwnedTensor output;
  Shape shape;
  int type = 0;
};

/// One run of a node, from its start until `done` has been called.
struct Call {
  Call(const CollectiveKernel& node, TF_OpKernelContext* run, DoneCallback end)
      : kernel(node), context(run), done(std::move(end)) {}

  const CollectiveKernel& kernel;
  TF_OpKernelContext* context;
  DoneCallback done;
  OwnedStatus trouble;  ///< What TensorFlow refused.
  std::vector<Travelling> tensors;
  std::vector<hvd_tensor> described;
  std::vector<std::int64_t> splits;

  hvd_handle handle = 0;
  hvd_status status = HVD_OK;
  std::string message;
  /// Two must have been here before the call can end: the thread that submitted, which knows the
  /// handle, and the one that completed, which knows the status.
  std::atomic<int> expected{2};
};

void end_with_failure(Call& call) {
  tf().TF_OpKernelContext_Failure(call.context, call.trouble.get());
}

bool fail(Call& call, hvd_status status, const std::string& text) {
  set_failure(call.trouble.get(), status, text);
  return false;
}

// ---- before: inputs and outputs

bool take_input(Call& call, int index, Travelling& tensor) {
  TF_Tensor* input = nullptr;
  tf().TF_GetInput(call.context, index, &input, call.trouble.get());
  if (!call.trouble.ok()) return false;
  tensor.input.reset(input);
  tensor.shape = shape_of(input);
  tensor.type = tf().TF_TensorType(input);
  return true;
}

/// The input's own memory where nobody else reads it, else new memory.
bool take_over_or_allocate(Call& call, int index, Travelling& tensor) {
  tensor.input.reset();  // a second reference would forbid it
  int forwarded = -1;
  tensor.output.reset(tf().TF_ForwardInputOrAllocateOutput(
      call.context, &index, 1, index, tensor.shape.data(), static_cast<int>(tensor.shape.size()),
      &forwarded, call.trouble.get()));
  if (!call.trouble.ok()) return false;
  return forwarded >= 0 || take_input(call, index, tensor);
}

bool allocate(Call& call, int index, Travelling& tensor, const Shape& shape) {
  const std::size_t bytes = elements_of(shape.data(), shape.size()) * element_bytes(tensor.type);
  tensor.output.reset(tf().TF_AllocateOutput(call.context, index, tensor.type, shape.data(),
                                             static_cast<int>(shape.size()), bytes,
                                             call.trouble.get()));
  return call.trouble.ok();
}

/// As hvd_reducescatter has it: the first ranks get one row more. A scalar is one row.
Shape share_of(const Shape& shape, int process_set) {
  const std::int64_t ranks = hvd_process_set_size(process_set);
  const std::int64_t place = hvd_process_set_rank(process_set);
  Shape share = shape.empty() ? Shape{1} : shape;
  if (ranks < 1 || place < 0) return share;  // hvd_submit() says so
  share[0] = share[0] / ranks + (place < share[0] % ranks ? 1 : 0);
  return share;
}

Shape without_rows(const Shape& shape) {
  Shape result = shape.empty() ? Shape{0} : shape;
  result[0] = 0;
  return result;
}

bool make_output(Call& call, int index, Travelling& tensor) {
  const hvd_request& request = call.kernel.request;
  switch (call.kernel.operation.rows) {
    case Rows::kSame:
      return take_over_or_allocate(call, index, tensor);
    case Rows::kShare:
      return allocate(call, index, tensor, share_of(tensor.shape, request.process_set));
    case Rows::kAtRoot:
      return allocate(call, index, tensor,
                      hvd_rank() == request.root ? tensor.shape : without_rows(tensor.shape));
    case Rows::kCounted:
      break;  // made when the operation has ended
  }
  return true;
}

bool take_splits(Call& call, int index) {
  Travelling given;
  if (!take_input(call, index, given)) return false;
  const auto* first = static_cast<const std::int64_t*>(tf().TF_TensorData(given.input.get()));
  call.splits.assign(first, first + elements_of(given.shape.data(), given.shape.size()));
  return true;
}

hvd_tensor describe(const Travelling& tensor, const std::vector<std::int64_t>& splits) {
  hvd_tensor result{};
  result.output = tensor.output ? tf().TF_TensorData(tensor.output.get()) : nullptr;
  result.input = tensor.input ? tf().TF_TensorData(tensor.input.get()) : result.output;
  result.dtype = hvd_type_of(tensor.type);
  result.dimensions = static_cast<std::int32_t>(tensor.shape.size());
  result.shape = tensor.shape.data();
  result.splits = splits.empty() ? nullptr : splits.data();
  result.split_count = splits.size();
  return result;
}

bool prepare(Call& call) {
  const int inputs = tf().TF_NumInputs(call.context);
  const int count = call.kernel.operation.takes_splits ? inputs - 1 : inputs;
  call.tensors.resize(static_cast<std::size_t>(count));
  call.described.reserve(call.tensors.size());
  if (count < inputs && !take_splits(call, count)) return false;
  for (int i = 0; i < count; ++i) {
    Travelling& tensor = call.tensors[static_cast<std::size_t>(i)];
    if (!take_input(call, i, tensor) || !make_output(call, i, tensor)) return false;
    call.described.push_back(describe(tensor, call.splits));
  }
  return true;
}

// ---- after: results

bool set_rows(Call& call, const std::vector<std::int64_t>& rows) {
  const auto count = static_cast<std::int64_t>(call.tensors.size());
  const std::int64_t shape[] = {count, static_cast<std::int64_t>(rows.size()) / count};
  const std::size_t bytes = rows.size() * sizeof(std::int64_t);
  const OwnedTensor output(tf().TF_AllocateOutput(call.context, static_cast<int>(count), kTfInt64,
                                                  shape, 2, bytes, call.trouble.get()));
  if (!call.trouble.ok()) return false;
  if (bytes > 0) std::memcpy(tf().TF_TensorData(output.get()), rows.data(), bytes);
  return true;
}

bool set_counted_results(Call& call) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    hvd_gather result{};
    const hvd_status status = hvd_gathered(call.handle, static_cast<std::uint32_t>(i), &result);
    if (status != HVD_OK) return fail(call, status, hvd_last_error());
    const Shape shape(result.shape, result.shape + result.dimensions);
    Travelling& tensor = call.tensors[i];
    if (!allocate(call, static_cast<int>(i), tensor, shape)) return false;
    const std::size_t bytes = tf().TF_TensorByteSize(tensor.output.get());
    if (bytes > 0) std::memcpy(tf().TF_TensorData(tensor.output.get()), result.data, bytes);
    rows.insert(rows.end(), result.rows, result.rows + result.ranks);
  }
  return set_rows(call, rows);
}

void finish(Call& call) {
  bool well = call.status == HVD_OK || fail(call, call.status, call.message);
  if (well && call.kernel.operation.rows == Rows::kCounted) well = set_counted_results(call);
  if (!well) end_with_failure(call);
  static_cast<void>(hvd_release(call.handle));
}

/// The call is gone then.
void end(std::unique_ptr<Call> call) {
  DoneCallback done = std::move(call->done);
  call.reset();  // gives the tensors back while TensorFlow still expects it
  call_counts().last_end.store(std::chrono::steady_clock::now().time_since_epoch());
  call_counts().ended.fetch_add(1);
  done.run();
}

/// The second of the two to come here ends the call.
void arrive(std::unique_ptr<Call> call) {
  if (call->expected.fetch_sub(1) == 2) {
    static_cast<void>(call.release());  // the other one will end it
    return;
  }
  finish(*call);
  end(std::move(call));
}

void on_complete(void* context, hvd_status status, const char* message) {
  std::unique_ptr<Call> call(static_cast<Call*>(context));
  call->status = status;
  if (status != HVD_OK && message != nullptr) call->message = message;
  arrive(std::move(call));
}

// What is small and alone is waited for by the thread that submits it, for so long: where all ranks
// come to it at once, as at the end of a step, that takes less than two hand-offs between threads.
constexpr std::size_t kQuickBytes = std::size_t{256} << 10;
constexpr double kQuickSeconds = 50e-6;
// A call that follows another one sooner is one of many in a graph, which are reduced together when
// nobody waits for each. Python takes longer from one to the next.
constexpr auto kFollowing = std::chrono::microseconds(10);

bool may_be_quick(const Call& call, std::chrono::steady_clock::duration begin) {
  const CallCounts& counts = call_counts();
  if (counts.ended.load() + 1 != counts.begun.load()) return false;
  if (begin - counts.last_end.load() < kFollowing) return false;
  std::size_t bytes = 0;
  for (const Travelling& tensor : call.tensors) {
    bytes += elements_of(tensor.shape.data(), tensor.shape.size()) * element_bytes(tensor.type);
  }
  return bytes <= kQuickBytes;
}

}  // namespace

void start_call(const CollectiveKernel& kernel, TF_OpKernelContext* context, DoneCallback done) {
  const auto begin = std::chrono::steady_clock::now().time_since_epoch();
  call_counts().last_begin.store(begin);
  call_counts().begun.fetch_add(1);
  auto call = std::make_unique<Call>(kernel, context, std::move(done));
  if (prepare(*call)) {
    hvd_request request = kernel.request;
    request.name = kernel.name.c_str();
    request.tensor_count = static_cast<std::uint32_t>(call->described.size());
    request.tensors = call->described.data();
    request.on_complete = on_complete;
    request.context = call.get();
    const bool is_quick = may_be_quick(*call, begin);
    if (is_quick) request.flags |= HVD_SUBMIT_MORE;  // the wait drives it, or wakes the engine
    const hvd_status status = hvd_submit(&request, &call->handle);
    if (status == HVD_OK) {
      if (is_quick) static_cast<void>(hvd_wait(call->handle, kQuickSeconds));
      return arrive(std::move(call));
    }
    fail(*call, status, hvd_last_error());
  }
  end_with_failure(*call);
  end(std::move(call));
}

}  // namespace hvd::tensorflow
