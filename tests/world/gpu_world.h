// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu.h"
#include "world/world.h"

namespace hvd {

/// The GPUs of the double of the driver, which live as long as the process.
Gpus& gpus_of_double();

/// A World whose ranks have tensors on GPUs: rank r on the r-th, or on one that others have as
/// well. Its memory is memory of the host, which tests may read where nothing works on it. By
/// default the backend is `staged`.
class GpuWorld : public World {
 public:
  explicit GpuWorld(std::vector<int> node_sizes, EngineOptions options = staged_options());
  static EngineOptions staged_options();
  static Gpu& gpu(int rank);
};

/// A stream of a framework.
class OwnStream {
 public:
  explicit OwnStream(Gpu& gpu) : gpu_(gpu), handle_(gpu.create_stream().value()) {}
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { gpu_.destroy_stream(handle_); }
  StreamHandle get() const { return handle_; }
  /// Until all that is in it has been done.
  void drain() const { ASSERT_TRUE(gpu_.wait(*gpu_.record(handle_).value()).is_ok()); }

 private:
  Gpu& gpu_;
  StreamHandle handle_;
};

/// Memory of a GPU.
template <typename T>
class DeviceTensor {
 public:
  DeviceTensor(Gpu& gpu, std::size_t count)
      : gpu_(gpu),
        count_(count),
        data_(static_cast<T*>(gpu.allocate(std::max<std::size_t>(count * sizeof(T), 1)).value())) {}
  DeviceTensor(Gpu& gpu, const std::vector<T>& values) : DeviceTensor(gpu, values.size()) {
    if (count_ > 0) std::memcpy(data_, values.data(), count_ * sizeof(T));
  }
  DeviceTensor(DeviceTensor&& other) noexcept
      : gpu_(other.gpu_), count_(other.count_), data_(std::exchange(other.data_, nullptr)) {}
  ~DeviceTensor() {
    if (data_ != nullptr) gpu_.deallocate(data_);
  }
  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return count_; }
  std::vector<T> values() const { return std::vector<T>(data_, data_ + count_); }
  /// Copies `values` to it in stream order.
  void fill(const std::vector<T>& values, StreamHandle stream) const {
    ASSERT_TRUE(gpu_.copy(data_, values.data(), count_ * sizeof(T), stream).is_ok());
  }

 private:
  Gpu& gpu_;
  std::size_t count_;
  T* data_;
};

/// What travels in one request.
using GpuTensors = std::vector<DeviceTensor<float>>;
/// On the GPU of `rank`; each counts up from it.
GpuTensors gpu_tensors(int rank, const std::vector<std::size_t>& sizes);

/// A request for float32 tensors in place, on the GPU of `rank`.
Request gpu_request(std::string name, int rank, const DeviceTensor<float>& tensor,
                    StreamHandle stream, Allreduce operation = Allreduce{});
Request gpu_request(std::string name, int rank, const GpuTensors& tensors,
                    const Operation& operation = Allreduce{});

}  // namespace hvd
