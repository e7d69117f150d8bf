// SPDX-License-Identifier: Apache-2.0
#include "c/request_key.h"

#include <cstdint>
#include <cstring>

namespace hvd {

RequestKey::RequestKey(const hvd_request& given) {
  const bool is_like_others = given.struct_size == sizeof(hvd_request) &&
                              given.device_kind == HVD_CPU && given.on_complete == nullptr;
  if (!is_like_others || !append_all(given)) length_ = 0;
}

bool RequestKey::append(const void* bytes, std::size_t count) {
  if (count > kMostBytes - length_) return false;
  if (count > 0) std::memcpy(bytes_.data() + length_, bytes, count);
  length_ += count;
  return true;
}

/// A negative number is a length beyond all.
bool RequestKey::append(const hvd_tensor& tensor) {
  struct Head {
    std::int32_t dtype;
    std::int32_t dimensions;
    std::uint64_t layout;
    std::uint64_t split_count;
  };
  const Head head{tensor.dtype, tensor.dimensions, tensor.layout, tensor.split_count};
  const auto dimensions = static_cast<std::uint32_t>(tensor.dimensions);
  if (dimensions > kMostBytes || (dimensions > 0 && tensor.shape == nullptr)) return false;
  if (tensor.split_count > kMostBytes) return false;
  if ((tensor.split_count == 0) != (tensor.splits == nullptr)) return false;
  return append(head) && append(tensor.shape, dimensions * sizeof(std::int64_t)) &&
         append(tensor.splits, tensor.split_count * sizeof(std::int64_t));
}

bool RequestKey::append_all(const hvd_request& given) {
  struct Head {
    std::int32_t kind;
    std::int32_t process_set;
    std::int32_t reduce_op;
    std::int32_t root;
    double prescale;
    double postscale;
    std::int32_t wire;
    std::int32_t priority;
    std::int32_t device_index;
    std::uint32_t tensor_count;
  };
  const std::uint32_t tensor_count = given.tensors == nullptr ? 0 : given.tensor_count;
  const Head head{given.kind,         given.process_set, given.reduce_op, given.root,
                  given.prescale,     given.postscale,   given.wire,      given.priority,
                  given.device_index, tensor_count};
  if (!append(head)) return false;
  for (std::uint32_t i = 0; i < tensor_count; ++i) {
    if (!append(given.tensors[i])) return false;
  }
  return given.name == nullptr || append(given.name, std::strlen(given.name));
}

}  // namespace hvd
