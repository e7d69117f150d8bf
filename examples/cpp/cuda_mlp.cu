// SPDX-License-Identifier: Apache-2.0
// Trains a digit classifier on several GPUs with the C++ interface of libhvd and kernels by hand:
//
//     hvdrun -np 4 cuda_mlp
//
// A step is put into one stream from end to end: the host waits for other ranks to agree, never for
// the device. What makes it distributed is marked with (1) to (5).
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "digits_data.h"
#include "hvd/hvd.hpp"

namespace {

constexpr int kPixels = static_cast<int>(digits::kPixels);
constexpr int kHidden = 128;
constexpr int kClasses = static_cast<int>(digits::kClasses);
constexpr int kThreads = 128;

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
  }
}

int blocks_for(int elements) { return (elements + kThreads - 1) / kThreads; }

__device__ int element() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

/// output[n][o] = input[n] . weights[o] + bias[o], and not below 0 where `rectify`.
__global__ void dense(const float* input, const float* weights, const float* bias, float* output,
                      int rows, int inputs, int outputs, bool rectify) {
  const int i = element();
  if (i >= rows * outputs) return;
  const float* x = input + i / outputs * inputs;
  const float* w = weights + i % outputs * inputs;
  float sum = bias[i % outputs];
  for (int k = 0; k < inputs; ++k) sum += x[k] * w[k];
  output[i] = rectify ? fmaxf(sum, 0) : sum;
}

/// The gradient of the mean cross-entropy by the scores.
__global__ void score_gradient(const float* scores, const int* labels, float* gradient, int rows) {
  const int row = element();
  if (row >= rows) return;
  const float* own = scores + row * kClasses;
  float highest = own[0];
  for (int c = 1; c < kClasses; ++c) highest = fmaxf(highest, own[c]);
  float total = 0;
  for (int c = 0; c < kClasses; ++c) total += expf(own[c] - highest);
  for (int c = 0; c < kClasses; ++c) {
    const float wanted = labels[row] == c ? 1 : 0;
    gradient[row * kClasses + c] = (expf(own[c] - highest) / total - wanted) / rows;
  }
}

/// The gradients of weights and bias; an output and an input of the layer for each thread.
__global__ void dense_gradient(const float* input, const float* gradient, float* of_weights,
                               float* of_bias, int rows, int inputs, int outputs) {
  const int i = element();
  if (i >= outputs * inputs) return;
  float sum = 0;
  float bias = 0;
  for (int n = 0; n < rows; ++n) {
    sum += gradient[n * outputs + i / inputs] * input[n * inputs + i % inputs];
    bias += gradient[n * outputs + i / inputs];
  }
  of_weights[i] = sum;
  if (i % inputs == 0) of_bias[i / inputs] = bias;
}

/// The gradient by the rectified input of a layer.
__global__ void input_gradient(const float* gradient, const float* weights, const float* input,
                               float* of_input, int rows, int inputs, int outputs) {
  const int i = element();
  if (i >= rows * inputs) return;
  float sum = 0;
  for (int o = 0; o < outputs; ++o) {
    sum += gradient[i / inputs * outputs + o] * weights[o * inputs + i % inputs];
  }
  of_input[i] = input[i] > 0 ? sum : 0;
}

__global__ void descend(float* values, const float* gradient, int count, float rate) {
  const int i = element();
  if (i < count) values[i] -= rate * gradient[i];
}

/// Elements in GPU memory.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t count() const { return count_; }
  /// `from` must live until the stream has read it.
  void fill(const std::vector<T>& from, cudaStream_t stream) {
    check(cudaMemcpyAsync(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice,
                          stream),
          "copy to the GPU");
  }
  std::vector<T> read(cudaStream_t stream) const {
    std::vector<T> to(count_);
    check(cudaMemcpyAsync(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream),
          "copy from the GPU");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// 64 pixels, 128 rectified units, 10 scores.
class Network {
 public:
  Network(int rows, cudaStream_t stream, unsigned seed) : rows_(rows), stream_(stream) {
    std::mt19937 random(seed);
    for (Buffer<float>* weights : {&weights1_, &weights2_}) {
      const int inputs = weights == &weights1_ ? kPixels : kHidden;
      std::normal_distribution<float> normal(0, std::sqrt(2.0F / static_cast<float>(inputs)));
      std::vector<float> start(weights->count());
      for (float& value : start) value = normal(random);
      weights->fill(start, stream);
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    for (const Buffer<float>* bias : {&bias1_, &bias2_}) {
      check(cudaMemsetAsync(bias->data(), 0, bias->count() * sizeof(float), stream), "memset");
    }
  }

  std::vector<hvd::GpuBuffer> values() const {
    return named({&weights1_, &bias1_, &weights2_, &bias2_});
  }
  std::vector<hvd::GpuBuffer> gradients() const {
    return named({&weights1_gradient_, &bias1_gradient_, &weights2_gradient_, &bias2_gradient_});
  }

  void forward(const float* images) {
    dense<<<blocks_for(rows_ * kHidden), kThreads, 0, stream_>>>(
        images, weights1_.data(), bias1_.data(), hidden_.data(), rows_, kPixels, kHidden, true);
    dense<<<blocks_for(rows_ * kClasses), kThreads, 0, stream_>>>(hidden_.data(), weights2_.data(),
                                                                  bias2_.data(), scores_.data(),
                                                                  rows_, kHidden, kClasses, false);
  }

  /// Calls ready(index) as soon as the stream holds what makes that gradient.
  template <typename Ready>
  void backward(const float* images, const int* labels, const Ready& ready) {
    score_gradient<<<blocks_for(rows_), kThreads, 0, stream_>>>(scores_.data(), labels,
                                                                scores_gradient_.data(), rows_);
    dense_gradient<<<blocks_for(kClasses * kHidden), kThreads, 0, stream_>>>(
        hidden_.data(), scores_gradient_.data(), weights2_gradient_.data(), bias2_gradient_.data(),
        rows_, kHidden, kClasses);
    ready(2);
    ready(3);
    input_gradient<<<blocks_for(rows_ * kHidden), kThreads, 0, stream_>>>(
        scores_gradient_.data(), weights2_.data(), hidden_.data(), hidden_gradient_.data(), rows_,
        kHidden, kClasses);
    dense_gradient<<<blocks_for(kHidden * kPixels), kThreads, 0, stream_>>>(
        images, hidden_gradient_.data(), weights1_gradient_.data(), bias1_gradient_.data(), rows_,
        kPixels, kHidden);
    ready(0);
    ready(1);
  }

  void update(float rate) {
    const auto gradients = this->gradients();
    const auto values = this->values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int count = static_cast<int>(values[i].count);
      descend<<<blocks_for(count), kThreads, 0, stream_>>>(values[i].data, gradients[i].data, count,
                                                           rate);
    }
    check(cudaGetLastError(), "a kernel of the step");
  }

  std::vector<float> scores() const { return scores_.read(stream_); }

 private:
  static std::vector<hvd::GpuBuffer> named(const std::vector<const Buffer<float>*>& buffers) {
    static const char* const kNames[] = {"weights1", "bias1", "weights2", "bias2"};
    std::vector<hvd::GpuBuffer> list;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      list.push_back({kNames[i], buffers[i]->data(), buffers[i]->count()});
    }
    return list;
  }

  int rows_;
  cudaStream_t stream_;
  Buffer<float> weights1_{kHidden * kPixels}, bias1_{kHidden};
  Buffer<float> weights2_{kClasses * kHidden}, bias2_{kClasses};
  Buffer<float> weights1_gradient_{kHidden * kPixels}, bias1_gradient_{kHidden};
  Buffer<float> weights2_gradient_{kClasses * kHidden}, bias2_gradient_{kClasses};
  Buffer<float> hidden_{static_cast<std::size_t>(rows_) * kHidden};
  Buffer<float> hidden_gradient_{static_cast<std::size_t>(rows_) * kHidden};
  Buffer<float> scores_{static_cast<std::size_t>(rows_) * kClasses};
  Buffer<float> scores_gradient_{static_cast<std::size_t>(rows_) * kClasses};
};

/// One batch of the digits, on the host and on the GPU.
class Batch {
 public:
  explicit Batch(int rows) : images_(static_cast<std::size_t>(rows) * kPixels), labels_(rows) {}

  /// Images `order[first]` and those that follow it.
  void take(const digits::Set& set, const std::vector<std::size_t>& order, std::size_t first,
            cudaStream_t stream) {
    pixels_.clear();
    numbers_.clear();
    for (std::size_t i = first; i < first + labels_.count(); ++i) {
      const float* image = set.image(order[i % order.size()]);
      pixels_.insert(pixels_.end(), image, image + kPixels);
      numbers_.push_back(set.labels[order[i % order.size()]]);
    }
    images_.fill(pixels_, stream);  // pageable memory: these return when it was read
    labels_.fill(numbers_, stream);
  }
  const float* images() const { return images_.data(); }
  const int* labels() const { return labels_.data(); }
  int label(std::size_t row) const { return numbers_[row]; }

 private:
  Buffer<float> images_;
  Buffer<int> labels_;
  std::vector<float> pixels_;
  std::vector<int> numbers_;
};

/// Share of the test set that the network gets right.
double test_accuracy(Network& network, Batch& batch, const digits::Set& test, std::size_t rows,
                     cudaStream_t stream) {
  const auto order = digits::shuffled(test.size(), 0);
  std::size_t right = 0;
  for (std::size_t first = 0; first < test.size(); first += rows) {
    batch.take(test, order, first, stream);
    network.forward(batch.images());
    const std::vector<float> scores = network.scores();
    for (std::size_t row = 0; row < std::min(rows, test.size() - first); ++row) {
      const float* own = &scores[row * kClasses];
      right += std::max_element(own, own + kClasses) - own == batch.label(row) ? 1 : 0;
    }
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

/// The GPU that hvdrun chose for this rank.
int own_gpu() {
  const char* chosen = std::getenv("HVD_LOCAL_DEVICE");
  const int gpu = chosen != nullptr ? std::atoi(chosen) : hvd_local_rank();
  check(cudaSetDevice(gpu), "cudaSetDevice");
  return gpu;
}

int train(int epochs, double expect) {
  constexpr std::size_t kRows = 16;
  const hvd::Context job;  // (1) joins the job
  const hvd::GpuDevice device{HVD_CUDA, own_gpu()};
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const digits::Split split = digits::load(DIGITS_CSV);
  Network network(kRows, stream, static_cast<unsigned>(job.rank()));
  Batch batch(kRows);
  hvd::broadcast(network.values(), device, stream, 0);  // (2) all ranks start with rank 0's values
  hvd::GpuGradients gradients(network.gradients(), device);
  const auto ranks = static_cast<std::size_t>(job.size());
  const std::size_t steps = split.train.size() / (kRows * ranks);
  double accuracy = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto order = digits::shuffled(split.train.size(), static_cast<unsigned>(epoch));
    for (std::size_t step = 0; step < steps; ++step) {
      // (3) each rank takes its own part of the step's images
      const std::size_t first = (step * ranks + static_cast<std::size_t>(job.rank())) * kRows;
      batch.take(split.train, order, first, stream);
      network.forward(batch.images());
      network.backward(batch.images(), batch.labels(), [&](std::size_t index) {
        gradients.ready(index, stream);  // (4) averaging starts while backward goes on
      });
      gradients.wait(stream);  // (5) puts the update after the averages
      network.update(0.1F);
    }
    accuracy = test_accuracy(network, batch, split.test, kRows, stream);
    if (job.rank() == 0)
      std::printf("epoch %2d/%d  accuracy %5.2f %%\n", epoch, epochs, 100 * accuracy);
  }
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  const bool is_good = accuracy >= expect;
  if (job.rank() == 0) {
    std::printf("final test accuracy %.2f %% (expected %.2f %%)%s\n", 100 * accuracy, 100 * expect,
                is_good ? "" : ": TOO LOW");
  }
  return is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: hvdrun -np 4 cuda_mlp [EPOCHS (20)]\n");
    return 2;
  }
  try {
    const int epochs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
    return train(epochs, epochs < 20 ? 0.5 : 0.95);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "cuda_mlp: %s\n", failure.what());
    return 1;
  }
}
