// SPDX-License-Identifier: Apache-2.0
#include "c/request_translation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hvd {

namespace {

// The numbers of hvd.h are those of the inner enumerations, so that a cast translates.
static_assert(HVD_OK == static_cast<int>(Code::kOk));
static_assert(HVD_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(HVD_MISMATCH == static_cast<int>(Code::kMismatch));
static_assert(HVD_UNSUPPORTED == static_cast<int>(Code::kUnsupported));
static_assert(HVD_TIMEOUT == static_cast<int>(Code::kTimeout));
static_assert(HVD_PEER_LOST == static_cast<int>(Code::kPeerLost));
static_assert(HVD_SYSTEM == static_cast<int>(Code::kSystem));
static_assert(HVD_ABORTED == static_cast<int>(Code::kAborted));
static_assert(HVD_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(HVD_UINT8 == static_cast<int>(DataType::kUint8));
static_assert(HVD_INT8 == static_cast<int>(DataType::kInt8));
static_assert(HVD_UINT16 == static_cast<int>(DataType::kUint16));
static_assert(HVD_INT16 == static_cast<int>(DataType::kInt16));
static_assert(HVD_INT32 == static_cast<int>(DataType::kInt32));
static_assert(HVD_INT64 == static_cast<int>(DataType::kInt64));
static_assert(HVD_FLOAT16 == static_cast<int>(DataType::kFloat16));
static_assert(HVD_FLOAT32 == static_cast<int>(DataType::kFloat32));
static_assert(HVD_FLOAT64 == static_cast<int>(DataType::kFloat64));
static_assert(HVD_BOOL == static_cast<int>(DataType::kBool));
static_assert(HVD_BFLOAT16 == static_cast<int>(DataType::kBfloat16));
static_assert(HVD_UINT32 == static_cast<int>(DataType::kUint32));
static_assert(HVD_UINT64 == static_cast<int>(DataType::kUint64));
static_assert(HVD_COMPLEX64 == static_cast<int>(DataType::kComplex64));
static_assert(HVD_COMPLEX128 == static_cast<int>(DataType::kComplex128));
static_assert(HVD_FLOAT8_E4M3 == static_cast<int>(DataType::kFloat8E4m3));
static_assert(HVD_FLOAT8_E5M2 == static_cast<int>(DataType::kFloat8E5m2));
static_assert(HVD_FLOAT8_E5M2 + 1 == kDataTypeCount);
static_assert(HVD_AVERAGE == static_cast<int>(ReduceOp::kAverage));
static_assert(HVD_SUM == static_cast<int>(ReduceOp::kSum));
static_assert(HVD_ADASUM == static_cast<int>(ReduceOp::kAdasum));
static_assert(HVD_MIN == static_cast<int>(ReduceOp::kMin));
static_assert(HVD_MAX == static_cast<int>(ReduceOp::kMax));
static_assert(HVD_PRODUCT == static_cast<int>(ReduceOp::kProduct));
static_assert(HVD_BIT_AND == static_cast<int>(ReduceOp::kBitAnd));
static_assert(HVD_BIT_OR == static_cast<int>(ReduceOp::kBitOr));
static_assert(HVD_BIT_XOR == static_cast<int>(ReduceOp::kBitXor));
static_assert(HVD_WIRE_SAME == static_cast<int>(Wire::kSame));
static_assert(HVD_WIRE_FLOAT16 == static_cast<int>(Wire::kFloat16));
static_assert(HVD_WIRE_BFLOAT16 == static_cast<int>(Wire::kBfloat16));
static_assert(HVD_CPU == static_cast<int>(DeviceKind::kCpu));
static_assert(HVD_CUDA == static_cast<int>(DeviceKind::kCuda));
static_assert(HVD_ROCM == static_cast<int>(DeviceKind::kRocm));

constexpr int kMostDimensions = 64;

/// hvd_request as its versions had it, the newest last; hvd_tensor as the first had it.
constexpr std::size_t kFirstRequestBytes = offsetof(hvd_request, wire);
constexpr std::size_t kRequestBytes[] = {kFirstRequestBytes, offsetof(hvd_request, stream),
                                         sizeof(hvd_request)};
constexpr std::size_t kFirstTensorBytes = offsetof(hvd_tensor, splits);

std::string_view shown_name(const hvd_request& request) {
  return request.name == nullptr || *request.name == '\0' ? "(no name)" : request.name;
}

/// A tensor as errors name it; the text is made only when there is an error.
struct Where {
  std::string_view name;
  std::size_t index = 0;
  std::size_t count = 1;

  std::string text() const {
    return count == 1 ? format_text("tensor '{}'", name)
                      : format_text("tensor '{}' [{}]", name, index);
  }
};

Result<ReduceOp> translate_reduce_op(const hvd_request& request) {
  if (request.reduce_op < HVD_AVERAGE || request.reduce_op > HVD_BIT_XOR) {
    return error(Code::kInvalidArgument, "tensor '{}': reduce_op {} is not an hvd_reduce_op",
                 shown_name(request), request.reduce_op);
  }
  return static_cast<ReduceOp>(request.reduce_op);
}

Result<Operation> translate_operation(const hvd_request& request) {
  switch (request.kind) {
    case HVD_ALLREDUCE: {
      HVD_TRY_ASSIGN(const ReduceOp op, translate_reduce_op(request));
      if (request.wire < HVD_WIRE_SAME || request.wire > HVD_WIRE_BFLOAT16) {
        return error(Code::kInvalidArgument, "tensor '{}': wire {} is not an hvd_wire",
                     shown_name(request), request.wire);
      }
      return Operation(
          Allreduce{op, request.prescale, request.postscale, static_cast<Wire>(request.wire)});
    }
    case HVD_ALLGATHER:
      return Operation(Allgather{});
    case HVD_BROADCAST:
      return Operation(Broadcast{request.root});
    case HVD_BARRIER:
      return Operation(Barrier{});
    case HVD_REDUCESCATTER: {
      HVD_TRY_ASSIGN(const ReduceOp op, translate_reduce_op(request));
      return Operation(Reducescatter{op, request.prescale, request.postscale});
    }
    case HVD_ALLTOALL:
      return Operation(Alltoall{});
    case HVD_REDUCE: {
      HVD_TRY_ASSIGN(const ReduceOp op, translate_reduce_op(request));
      return Operation(Reduce{request.root, op, request.prescale, request.postscale});
    }
    case HVD_GATHER:
      return Operation(Gather{request.root});
    case HVD_SCATTER:
      return Operation(Scatter{request.root});
    case HVD_JOIN:
      return Operation(Join{});
    default:
      return error(Code::kInvalidArgument, "tensor '{}': kind {} is not an hvd_kind",
                   shown_name(request), request.kind);
  }
}

/// The shape, or why its elements cannot be counted.
Result<std::vector<std::int64_t>> checked_shape(const hvd_tensor& given, const Where& where) {
  if (given.dimensions < 0 || given.dimensions > kMostDimensions ||
      (given.dimensions > 0 && given.shape == nullptr)) {
    return error(Code::kInvalidArgument, "{}: {} dimensions with {} shape", where.text(),
                 given.dimensions, given.shape == nullptr ? "a null" : "a");
  }
  const std::span extents(given.shape, static_cast<std::size_t>(given.dimensions));
  // Bytes must fit into a signed 64-bit number, also when some extent is zero.
  auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) /
              size_of(static_cast<DataType>(given.dtype));
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      return error(Code::kInvalidArgument, "{}: a dimension is {}, below 0", where.text(), extent);
    }
    if (extent > 0) most /= static_cast<std::uint64_t>(extent);
  }
  if (most == 0) {
    return error(Code::kInvalidArgument, "{}: the shape has more than 2^63 bytes", where.text());
  }
  return std::vector<std::int64_t>(extents.begin(), extents.end());
}

Result<Tensor> describe_tensor(const hvd_tensor& given, const Where& where) {
  if (given.dtype < 0 || given.dtype >= kDataTypeCount) {
    return error(Code::kInvalidArgument, "{}: dtype {} is not an hvd_dtype", where.text(),
                 given.dtype);
  }
  HVD_TRY_ASSIGN(auto shape, checked_shape(given, where));
  return Tensor{.dtype = static_cast<DataType>(given.dtype),
                .shape = std::move(shape),
                .layout = given.layout};
}

/// Where every rank needs an output; what only the root needs is checked where the rank is known.
bool needs_output(int kind) { return kind == HVD_ALLREDUCE || kind == HVD_BROADCAST; }

Result<Tensor> translate_tensor(const hvd_tensor& given, const hvd_request& request,
                                std::size_t index) {
  const Where where{shown_name(request), index, request.tensor_count};
  HVD_TRY_ASSIGN(auto tensor, describe_tensor(given, where));
  bool is_empty = false;
  for (const std::int64_t extent : tensor.shape) is_empty = is_empty || extent == 0;
  const bool lacks_input = request.kind != HVD_SCATTER && given.input == nullptr;
  const bool lacks_output = needs_output(request.kind) && given.output == nullptr;
  if (!is_empty && (lacks_input || lacks_output)) {
    return error(Code::kInvalidArgument, "{}: {} is null but the tensor is not empty", where.text(),
                 lacks_input ? "input" : "output");
  }
  if ((given.splits == nullptr) != (given.split_count == 0)) {
    return error(Code::kInvalidArgument, "{}: split_count is {} and splits is {}", where.text(),
                 given.split_count, given.splits == nullptr ? "null" : "not null");
  }
  tensor.input = given.input;
  tensor.output = given.output;
  tensor.output_bytes = given.output_bytes;
  tensor.splits.assign(given.splits, given.splits + given.split_count);
  return tensor;
}

Status check_request(const hvd_request& given) {
  if (given.device_kind < HVD_CPU || given.device_kind > HVD_ROCM) {
    return error(Code::kInvalidArgument, "tensor '{}': device_kind {} is not an hvd_device_kind",
                 shown_name(given), given.device_kind);
  }
  const bool takes_tensors = given.kind != HVD_BARRIER && given.kind != HVD_JOIN;
  if (takes_tensors && (given.tensor_count == 0 || given.tensors == nullptr)) {
    return error(Code::kInvalidArgument, "tensor '{}': the request has no tensors",
                 shown_name(given));
  }
  if (!takes_tensors && given.tensor_count != 0) {
    return error(Code::kInvalidArgument, "{} '{}': a {} has no tensors, {} given",
                 given.kind == HVD_JOIN ? "join" : "barrier", shown_name(given),
                 given.kind == HVD_JOIN ? "join" : "barrier", given.tensor_count);
  }
  return Status::ok();
}

/// The request of a program that may have been compiled against an older hvd.h.
Result<hvd_request> in_full(const hvd_request& given) {
  const std::size_t size = given.struct_size;
  if (std::find(std::begin(kRequestBytes), std::end(kRequestBytes), size) ==
      std::end(kRequestBytes)) {
    return error(Code::kInvalidArgument,
                 "hvd_submit: struct_size is {}, this library's hvd_request has {} (before {} and "
                 "{}); start from HVD_REQUEST_INITIALIZER, and load a library as new as its hvd.h",
                 size, kRequestBytes[2], kRequestBytes[1], kRequestBytes[0]);
  }
  hvd_request request = HVD_REQUEST_INITIALIZER;
  std::memcpy(&request, &given, size);
  return request;
}

/// Tensor `index` of a request, whose tensors are as old as itself.
hvd_tensor tensor_at(const hvd_request& request, std::size_t index) {
  hvd_tensor tensor = {};
  const std::size_t bytes =
      request.struct_size == kFirstRequestBytes ? kFirstTensorBytes : sizeof(hvd_tensor);
  std::memcpy(&tensor, reinterpret_cast<const std::byte*>(request.tensors) + index * bytes, bytes);
  return tensor;
}

}  // namespace

Result<Request> translate(const hvd_request& any_version) {
  HVD_TRY_ASSIGN(const hvd_request given, in_full(any_version));
  HVD_TRY(check_request(given));
  Request request;
  if (given.name != nullptr) request.name = given.name;
  HVD_TRY_ASSIGN(request.operation, translate_operation(given));
  request.process_set = given.process_set;
  request.device = {static_cast<DeviceKind>(given.device_kind), given.device_index};
  request.stream = given.stream;
  request.tensors.reserve(given.tensor_count);
  for (std::size_t i = 0; i < given.tensor_count; ++i) {
    HVD_TRY_ASSIGN(auto tensor, translate_tensor(tensor_at(given, i), given, i));
    request.tensors.push_back(std::move(tensor));
  }
  request.priority = given.priority;
  request.more = (given.flags & HVD_SUBMIT_MORE) != 0;
  if (given.on_complete != nullptr) {
    request.on_complete = [callback = given.on_complete,
                           context = given.context](const Status& status) {
      callback(context, static_cast<hvd_status>(status.code()), status.message().c_str());
    };
  }
  return request;
}

Result<Tensor> translate_description(std::string_view name, const hvd_tensor& tensor) {
  return describe_tensor(tensor, {name});
}

}  // namespace hvd
