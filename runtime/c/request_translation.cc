// SPDX-License-Identifier: Apache-2.0
#include "c/request_translation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "engine/request/request_check.h"

namespace hvd {

namespace {

// The numbers of hvd.h are those of the inner enumerations, so that a cast translates; those of
// hvd_kind are the places in the variant Operation.
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

/// `value` as the inner enumeration has it, up to `last`.
template <typename Inner>
Result<Inner> translate_number(const hvd_request& request, std::string_view field, int value,
                               Inner last) {
  if (value < 0 || value > static_cast<int>(last)) {
    return error(Code::kInvalidArgument, "tensor '{}': {} {} is not an hvd_{}", shown_name(request),
                 field, value, field);
  }
  return static_cast<Inner>(value);
}

/// The operation with those fields of the request that its kind has.
Result<Operation> translate_operation(const hvd_request& request) {
  auto operation = operation_of(static_cast<std::size_t>(static_cast<std::uint32_t>(request.kind)));
  if (!operation) {
    return error(Code::kInvalidArgument, "tensor '{}': kind {} is not an hvd_kind",
                 shown_name(request), request.kind);
  }
  const auto fill = [&](auto& one) -> Status {
    if constexpr (requires { one.root; }) one.root = request.root;
    if constexpr (requires { one.op; }) {
      HVD_TRY_ASSIGN(one.op,
                     translate_number(request, "reduce_op", request.reduce_op, ReduceOp::kBitXor));
      one.prescale = request.prescale;
      one.postscale = request.postscale;
    }
    if constexpr (requires { one.wire; }) {
      HVD_TRY_ASSIGN(one.wire, translate_number(request, "wire", request.wire, Wire::kBfloat16));
    }
    return Status::ok();
  };
  HVD_TRY(std::visit(fill, *operation));
  return *operation;
}

/// What of a tensor is not memory. Whether its bytes can be counted is not looked at.
Result<Tensor> read_description(const hvd_tensor& given, const Where& where) {
  if (given.dtype < 0 || given.dtype >= kDataTypeCount) {
    return error(Code::kInvalidArgument, "{}: dtype {} is not an hvd_dtype", where.text(),
                 given.dtype);
  }
  if (given.dimensions < 0 || given.dimensions > kMostDimensions ||
      (given.dimensions > 0 && given.shape == nullptr)) {
    return error(Code::kInvalidArgument, "{}: {} dimensions with {} shape", where.text(),
                 given.dimensions, given.shape == nullptr ? "a null" : "a");
  }
  return Tensor{.dtype = static_cast<DataType>(given.dtype),
                .shape = {given.shape, given.shape + given.dimensions},
                .layout = given.layout};
}

Result<Tensor> translate_tensor(const hvd_tensor& given, const Where& where) {
  HVD_TRY_ASSIGN(auto tensor, read_description(given, where));
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
  Request request;
  if (given.name != nullptr) request.name = given.name;
  HVD_TRY_ASSIGN(request.operation, translate_operation(given));
  request.process_set = given.process_set;
  HVD_TRY_ASSIGN(request.device.kind,
                 translate_number(given, "device_kind", given.device_kind, DeviceKind::kRocm));
  request.device.index = given.device_index;
  request.stream = given.stream;
  const std::size_t count = given.tensors == nullptr ? 0 : given.tensor_count;
  request.tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Where where{shown_name(given), i, count};
    HVD_TRY_ASSIGN(auto tensor, translate_tensor(tensor_at(given, i), where));
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

void translate_memory(const hvd_request& given, Request& request) {
  set_root(request.operation, given.root);
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    Tensor& tensor = request.tensors[i];
    tensor.input = given.tensors[i].input;
    tensor.output = given.tensors[i].output;
    tensor.output_bytes = given.tensors[i].output_bytes;
  }
}

Result<Tensor> translate_description(std::string_view name, const hvd_tensor& tensor) {
  const Where where{name};
  HVD_TRY_ASSIGN(auto described, read_description(tensor, where));
  if (const Status status = check_shape(described); !status.is_ok()) {
    return status.with_context(where.text());
  }
  return described;
}

}  // namespace hvd
