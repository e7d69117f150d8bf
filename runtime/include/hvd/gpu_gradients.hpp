// SPDX-License-Identifier: Apache-2.0
/// Gradients in GPU memory, for training loops written by hand: header only, over gradients.h.
/// Nothing of CUDA or ROCm is included: a stream is the pointer that cudaStream_t or hipStream_t
/// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hvd/collectives.hpp"
#include "hvd/gpu.hpp"
#include "hvd/gradients.h"

namespace hvd {

/// Elements in GPU memory, the caller's, and their name.
struct GpuBuffer {
  std::string name;  ///< Unique; equal on all ranks.
  float* data = nullptr;
  std::size_t count = 0;
};

/// Replaces the buffers by those of rank `root`, in the order of a stream; the host does not wait
/// for the device. Call it once before training.
inline void broadcast(const std::vector<GpuBuffer>& buffers, GpuDevice device, void* stream,
                      int root, std::int32_t process_set = 0) {
  std::vector<Pending> pending;
  pending.reserve(buffers.size());
  for (const GpuBuffer& buffer : buffers) {
    const auto count = static_cast<std::int64_t>(buffer.count);
    hvd_tensor tensor = detail::flat_tensor<float>(buffer.data, buffer.data, count);
    hvd_request request = detail::request_of(HVD_BROADCAST, process_set, {device, stream});
    request.root = root;
    pending.emplace_back(detail::start(request, "broadcast." + buffer.name, {&tensor, 1}, true));
  }
  for (Pending& one : pending) one.wait_stream(stream);
}

/// Averages gradients over the ranks while the backward pass goes on, in the order of streams.
///
/// Each step: put what writes gradient i into a stream and call ready(i, stream), for each; then
/// wait(stream), and put the update of the values into that stream. A gradient is borrowed from
/// ready() until wait() has returned, then until the stream has come to that. An exception that
/// ends this in the middle of a step ends this rank's part in the job. One thread at a time.
class GpuGradients {
 public:
  GpuGradients(std::vector<GpuBuffer> gradients, GpuDevice device,
               hvd_compression_method wire = HVD_COMPRESS_NONE)
      : gradients_(std::move(gradients)), set_(create(device, wire)) {}

  /// What `stream` holds by now writes gradient `index`; its reduction may start after that.
  void ready(std::size_t index, void* stream) { send(index, stream, 0); }

  /// Sends what was not called ready, and puts what follows in `stream` after the averages.
  void wait(void* stream) {
    std::vector<std::uint32_t> missing(gradients_.size());
    std::uint32_t count = 0;
    check(hvd_gradients_missing(set_.get(), missing.data(),
                                static_cast<std::uint32_t>(missing.size()), &count));
    for (std::uint32_t i = 0; i < count; ++i) send(missing[i], stream, 1);
    check(hvd_gradients_wait_stream(set_.get(), stream, -1));
  }

 private:
  hvd_gradients* create(GpuDevice device, hvd_compression_method wire) const {
    std::vector<const char*> names;
    std::vector<std::int64_t> counts(gradients_.size());
    std::vector<hvd_tensor> tensors;
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      names.push_back(gradients_[i].name.c_str());
      counts[i] = static_cast<std::int64_t>(gradients_[i].count);
      tensors.push_back(detail::flat_tensor<float>(nullptr, nullptr, counts[i]));
    }
    hvd_gradients_options options = HVD_GRADIENTS_OPTIONS_INITIALIZER;
    options.compression = wire;
    options.device_kind = device.kind;
    options.device_index = device.index;
    hvd_gradients* made = nullptr;
    check(hvd_gradients_create(&options, names.data(), tensors.data(),
                               static_cast<std::uint32_t>(tensors.size()), &made));
    return made;
  }

  void send(std::size_t index, void* stream, int last_pass) {
    check(hvd_gradient_ready_on(set_.get(), static_cast<std::uint32_t>(index),
                                gradients_.at(index).data, last_pass, stream));
  }

  std::vector<GpuBuffer> gradients_;
  detail::OwnedGradients set_;
};

}  // namespace hvd
