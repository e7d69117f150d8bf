// SPDX-License-Identifier: Apache-2.0
// What a step of gradients costs with each compression: hvdrun -np 2 compression_bench
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "hvd/hvd.hpp"

namespace {

constexpr std::int64_t kSide = 1'024;
constexpr std::size_t kGradients = 8;
constexpr int kSteps = 15;

void fill(std::vector<float>& values, std::uint32_t state) {
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.0F;
  }
}

std::uint64_t bytes_given() {
  hvd_counters counters{};
  counters.struct_size = sizeof counters;
  hvd::check(hvd_statistics(&counters));
  return counters.bytes;
}

void measure(const hvd::Context& job, const char* name, hvd_compression_method method) {
  std::vector<std::vector<float>> gradients(kGradients, std::vector<float>(kSide * kSide));
  std::vector<std::string> texts;
  std::vector<const char*> names;
  std::vector<hvd_tensor> tensors(kGradients, hvd_tensor{});
  const std::vector<std::int64_t> shape{kSide, kSide};
  for (std::size_t i = 0; i < kGradients; ++i) texts.push_back(name + std::to_string(i));
  for (std::size_t i = 0; i < kGradients; ++i) {
    names.push_back(texts[i].c_str());
    tensors[i].dtype = HVD_FLOAT32;
    tensors[i].dimensions = 2;
    tensors[i].shape = shape.data();
  }
  hvd_gradients_options options = HVD_GRADIENTS_OPTIONS_INITIALIZER;
  options.compression = method;
  hvd_gradients* set = nullptr;
  hvd::check(hvd_gradients_create(&options, names.data(), tensors.data(), kGradients, &set));
  std::vector<double> times;
  std::vector<double> work;  // processor time: what a loaded machine does not falsify
  std::uint64_t bytes = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < kGradients; ++i) {
      fill(gradients[i], static_cast<std::uint32_t>(step * 1'000 + job.rank()));
    }
    hvd::check(hvd_barrier());
    const std::uint64_t bytes_before = bytes_given();
    const std::clock_t worked_before = std::clock();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < kGradients; ++i) {
      hvd::check(hvd_gradient_ready(set, i, gradients[i].data(), 0));
    }
    hvd::check(hvd_gradients_wait(set, -1));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
    work.push_back(static_cast<double>(std::clock() - worked_before) / CLOCKS_PER_SEC);
    bytes = bytes_given() - bytes_before;
  }
  hvd_gradients_destroy(set);
  std::sort(times.begin(), times.end());
  std::sort(work.begin(), work.end());
  if (job.rank() == 0) {
    std::printf("%-10s %8.1f ms, %7.1f ms of processor time, %10llu bytes\n", name,
                1e3 * times[times.size() / 2], 1e3 * work[work.size() / 2],
                static_cast<unsigned long long>(bytes));
  }
}

}  // namespace

int main() {
  try {
    const hvd::Context job;
    for (const auto& [name, method] : std::vector<std::pair<const char*, hvd_compression_method>>{
             {"none", HVD_COMPRESS_NONE},
             {"fp16", HVD_COMPRESS_FLOAT16},
             {"bf16", HVD_COMPRESS_BFLOAT16},
             {"fp8-e4m3", HVD_COMPRESS_FLOAT8_E4M3},
             {"fp8-e5m2", HVD_COMPRESS_FLOAT8_E5M2},
             {"top-k", HVD_COMPRESS_TOP_K},
             {"power-sgd", HVD_COMPRESS_POWER_SGD}}) {
      measure(job, name, method);
    }
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "compression_bench: %s\n", failure.what());
    return 1;
  }
}
