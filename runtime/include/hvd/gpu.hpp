// SPDX-License-Identifier: Apache-2.0
/// Collective operations on GPU memory, in the order of the caller's streams: header only. Nothing
/// of CUDA or ROCm is included: a stream is the pointer that cudaStream_t or hipStream_t is.
///
///     hvd::Pending sum = hvd::allreduce_async("x", in, out, {{HVD_CUDA, 0}, stream});
///     sum.wait_stream(stream);  // what comes into the stream now reads the sum; no wait of the
///     host
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hvd/collectives.hpp"

namespace hvd {

/// A GPU that memory is on.
struct GpuDevice {
  hvd_device_kind kind = HVD_CUDA;
  std::int32_t index = 0;
};

/// Where the memory of a call is, and the stream that holds the work which makes its inputs.
struct GpuStream {
  GpuDevice device;
  void* stream = nullptr;  ///< Null: the default stream.
};

namespace detail {

inline hvd_request request_of(hvd_kind kind, std::int32_t process_set, const GpuStream& place) {
  hvd_request request = request_of(kind, process_set);
  request.device_kind = place.device.kind;
  request.device_index = place.device.index;
  request.stream = place.stream;
  return request;
}

}  // namespace detail

/// Starts output = reduction of input over ranks. Equal lengths; may be the same memory. float and
/// double may travel as a half type (`wire`).
template <typename T>
Pending allreduce_async(const std::string& name, std::span<const T> input, std::span<T> output,
                        const GpuStream& place, hvd_reduce_op op = HVD_AVERAGE,
                        hvd_wire wire = HVD_WIRE_SAME, std::int32_t process_set = 0) {
  if (input.size() != output.size()) {
    throw Error(HVD_INVALID_ARGUMENT, "allreduce '" + name + "': input has " +
                                          std::to_string(input.size()) + " elements, output " +
                                          std::to_string(output.size()));
  }
  const auto count = static_cast<std::int64_t>(input.size());
  hvd_tensor tensor = detail::flat_tensor(input.data(), output.data(), count);
  hvd_request request = detail::request_of(HVD_ALLREDUCE, process_set, place);
  request.reduce_op = op;
  request.wire = wire;
  return detail::submit(request, name, {&tensor, 1});
}

/// Starts replacing `buffer` by that of rank `root` of the job.
template <typename T>
Pending broadcast_async(const std::string& name, std::span<T> buffer, int root,
                        const GpuStream& place, std::int32_t process_set = 0) {
  const auto count = static_cast<std::int64_t>(buffer.size());
  hvd_tensor tensor = detail::flat_tensor<T>(buffer.data(), buffer.data(), count);
  hvd_request request = detail::request_of(HVD_BROADCAST, process_set, place);
  request.root = root;
  return detail::submit(request, name, {&tensor, 1});
}

/// Starts concatenating the rows of all ranks, which may differ in number; gathered_rows() shows
/// the result.
template <typename T>
Pending allgather_async(const std::string& name, std::span<const T> values, std::size_t row_count,
                        const GpuStream& place, std::int32_t process_set = 0) {
  if (row_count == 0 || values.size() % row_count != 0) {
    throw Error(HVD_INVALID_ARGUMENT, "allgather '" + name + "': " + std::to_string(values.size()) +
                                          " elements are not whole rows of " +
                                          std::to_string(row_count));
  }
  const std::array<std::int64_t, 2> shape = {static_cast<std::int64_t>(values.size() / row_count),
                                             static_cast<std::int64_t>(row_count)};
  hvd_tensor tensor{};
  tensor.input = values.data();
  tensor.dtype = dtype_of<T>();
  tensor.dimensions = 2;
  tensor.shape = shape.data();
  return detail::submit(detail::request_of(HVD_ALLGATHER, process_set, place), name, {&tensor, 1});
}

/// What an allgather gave, in GPU memory of the library, after wait on it by put_before(): valid
/// for what is put into that stream, which must exist as long, until `gathered` ends.
template <typename T>
std::span<const T> gathered_rows(const Pending& gathered) {
  hvd_gather rows{};
  check(hvd_gathered(gathered.handle(), 0, &rows));
  std::size_t count = 1;
  for (std::int32_t i = 0; i < rows.dimensions; ++i) {
    count *= static_cast<std::size_t>(rows.shape[i]);
  }
  return {static_cast<const T*>(rows.data), count};
}

}  // namespace hvd
