// SPDX-License-Identifier: Apache-2.0
// A rank with tensors on GPUs of the double of the driver, by the C++ interface:
//
//     HVD_CUDA_LIBRARY=.../libcuda_double.so hvdrun -np 2 gpu_rank
#include <cuda.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "doubles/cuda/double_cuda.h"
#include "hvd/hvd.hpp"

namespace {

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}

void check(CUresult code, const char* what) {
  if (code != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + " failed");
}

/// GPU 0 and a stream of it, as a framework uses them.
struct Framework {
  Framework() {
    check(cuInit(0), "cuInit");
    CUcontext context = nullptr;
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  std::span<float> allocate(std::size_t count) const {
    CUdeviceptr memory = 0;
    check(cuMemAlloc(&memory, count * sizeof(float)), "cuMemAlloc");
    return {reinterpret_cast<float*>(memory), count};
  }
  void put(std::span<float> device, const std::vector<float>& values) const {
    copy(device.data(), values.data(), device.size_bytes());
  }
  std::vector<float> get(std::span<const float> device) const {
    std::vector<float> values(device.size());
    copy(values.data(), device.data(), device.size_bytes());
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    return values;
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    check(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                        bytes, stream),
          "cuMemcpyAsync");
  }
  hvd::GpuStream place() const { return {{HVD_CUDA, 0}, stream}; }

  CUstream stream = nullptr;
};

void reduce_in_stream_order(const hvd::Context& job, const Framework& framework) {
  const std::span<float> input = framework.allocate(100'000);
  const std::span<float> output = framework.allocate(100'000);
  double_delay(static_cast<std::uint64_t>(job.rank()) + 1, 300);
  for (int step = 0; step < 10; ++step) {
    const std::vector<float> values(input.size(), static_cast<float>(job.rank() + step));
    framework.put(input, values);
    hvd::allreduce_async<float>("x", input, output, framework.place(), HVD_SUM)
        .wait_stream(framework.stream);
    const std::vector<float> sums = framework.get(output);
    float expected = 0;
    for (int rank = 0; rank < job.size(); ++rank) expected += static_cast<float>(rank + step);
    expect(sums == std::vector<float>(sums.size(), expected),
           "sum of step " + std::to_string(step));
  }
}

void move(const hvd::Context& job, const Framework& framework) {
  const std::span<float> buffer = framework.allocate(7);
  framework.put(buffer, std::vector<float>(7, static_cast<float>(job.rank())));
  hvd::Pending rows = hvd::allgather_async<float>("rows", buffer, 7, framework.place());
  rows.put_before(framework.stream);
  const std::vector<float> all = framework.get(hvd::gathered_rows<float>(rows));
  expect(all.size() == 7 * static_cast<std::size_t>(job.size()), "the rows of all ranks");
  expect(all.front() == 0 && all.back() == static_cast<float>(job.size() - 1), "rows by rank");
  rows.wait();
  hvd::broadcast_async<float>("weights", buffer, job.size() - 1, framework.place())
      .wait_stream(framework.stream);
  expect(framework.get(buffer) == std::vector<float>(7, all.back()), "the values of the root");
}

/// What hvd_submit() says to a sum of four floats.
void expect_refused(const hvd_tensor& tensor, void* stream, hvd_status status,
                    const std::string& words) {
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.name = "refused";
  request.device_kind = HVD_CUDA;
  request.tensors = &tensor;
  request.tensor_count = 1;
  request.stream = stream;
  hvd_handle handle = 0;
  expect(hvd_submit(&request, &handle) == status, words);
  const std::string text = hvd_last_error();
  expect(text.find("'refused'") != std::string::npos, text);
  expect(text.find(words) != std::string::npos, text);
}

void what_would_spoil_the_gpu_is_refused(const hvd::Context& job, const Framework& framework) {
  const std::span<float> buffer = framework.allocate(8);
  const std::int64_t count = 4;
  hvd_tensor tensor = {};
  tensor.dtype = HVD_FLOAT32;
  tensor.dimensions = 1;
  tensor.shape = &count;
  tensor.input = buffer.data();
  tensor.output = reinterpret_cast<char*>(buffer.data()) + 3;
  expect_refused(tensor, framework.stream, HVD_INVALID_ARGUMENT, "only at multiples of 4");
  tensor.output = buffer.data();
  CUstream captured = nullptr;
  CUgraph graph = nullptr;
  check(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
  expect_refused(tensor, captured, HVD_UNSUPPORTED, "is being captured into a graph");
  framework.put(buffer, std::vector<float>(8, 1.0F));
  hvd::allreduce_async<float>("beside", buffer, buffer, framework.place(), HVD_SUM)
      .wait_stream(framework.stream);
  check(cuStreamEndCapture(captured, &graph), "cuStreamEndCapture");
  check(cuGraphDestroy(graph), "cuGraphDestroy");
  const auto size = static_cast<float>(job.size());
  expect(framework.get(buffer) == std::vector<float>(8, size), "a sum beside the capture");
  hvd::allreduce_async<float>("after", buffer, buffer, {{HVD_CUDA, 0}, captured}, HVD_SUM)
      .wait_stream(framework.stream);
  expect(framework.get(buffer) == std::vector<float>(8, size * size), "a sum after the capture");
}

void errors_say_what_to_do(const hvd::Context& /*job*/, const Framework& framework) {
  std::vector<float> on_host(4);
  hvd::Pending pending = hvd::allreduce_async<float>("cpu", on_host, on_host);
  try {
    pending.wait_stream(framework.stream);
    expect(false, "a stream waits for GPU memory alone");
  } catch (const hvd::Error& error) {
    expect(error.status() == HVD_INVALID_ARGUMENT, error.what());
  }
  pending.wait();
}

/// Last, because it ends the job: an exception takes rank 1 out of a step, and what its gradients'
/// memory holds afterwards stays.
void an_exception_ends_a_step(const hvd::Context& job, const Framework& framework) {
  const std::span<float> first = framework.allocate(50'000);
  const std::span<float> second = framework.allocate(50'000);
  const std::vector<float> mine(first.size(), static_cast<float>(100 + job.rank()));
  framework.put(first, mine);
  framework.put(second, mine);
  try {
    hvd::barrier();  // whoever is told of the loss below is in this block by then
    hvd::GpuGradients gradients(
        {{"first", first.data(), first.size()}, {"second", second.data(), second.size()}},
        {HVD_CUDA, 0});
    gradients.ready(0, framework.stream);
    if (job.rank() == 1) throw std::logic_error("injected");
    gradients.wait(framework.stream);
    expect(job.size() == 1, "a rank was lost, and nobody was told");
  } catch (const std::logic_error&) {
    framework.put(first, mine);
    hvd_shutdown(10);
    expect(framework.get(first) == mine, "nothing was written after the step had ended");
  } catch (const hvd::Error& error) {
    const std::string text = error.what();
    expect(error.status() == HVD_PEER_LOST, text);
    expect(text.find("an exception left a training step") != std::string::npos, text);
  }
}

}  // namespace

int main() {
  try {
    const hvd::Context job;
    const Framework framework;
    reduce_in_stream_order(job, framework);
    move(job, framework);
    what_would_spoil_the_gpu_is_refused(job, framework);
    errors_say_what_to_do(job, framework);
    an_exception_ends_a_step(job, framework);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_rank: %s\n", error.what());
    return 1;
  }
}
