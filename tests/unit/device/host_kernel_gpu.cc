// SPDX-License-Identifier: Apache-2.0
// A GPU whose memory is that of the host, and whose kernels are those compiled for the host. It
// runs each when it is launched.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "host_kernel.h"
#include "kernel_arena.h"

namespace hvd {
namespace {

class HostKernelGpu : public Gpu {
 public:
  HostKernelGpu() { facts_.name = "kernels on the host"; }

  Device device() const override { return {.kind = DeviceKind::kCuda}; }
  const GpuFacts& facts() const override { return facts_; }
  bool can_reach(const Gpu& /*peer*/) const override { return false; }
  Result<StreamHandle> create_stream() override { return StreamHandle{}; }
  void destroy_stream(StreamHandle /*stream*/) override {}
  Status check_stream(StreamHandle /*stream*/) override { return Status::ok(); }
  Result<GpuEventPtr> record(StreamHandle stream) override {
    return GpuEventPtr(std::make_shared<GpuEvent>(*this, nullptr, stream));
  }
  Status make_wait(StreamHandle /*stream*/, const GpuEvent& /*event*/) override {
    return Status::ok();
  }
  Result<bool> has_happened(const GpuEvent& /*event*/) override { return true; }
  Status wait(const GpuEvent& /*event*/) override { return Status::ok(); }
  // As aligned as the driver's memory.
  Result<void*> allocate(std::size_t bytes) override {
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  void deallocate(void* memory) override { std::free(memory); }
  Result<void*> allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void deallocate_pinned(void* memory) override { deallocate(memory); }
  Status copy(void* to, const void* from, std::size_t bytes, StreamHandle /*stream*/) override {
    std::memcpy(to, from, bytes);
    return Status::ok();
  }
  Status set_bytes(void* memory, std::uint8_t value, std::size_t bytes,
                   StreamHandle /*stream*/) override {
    std::memset(memory, value, bytes);
    return Status::ok();
  }
  Result<void*> kernel(std::string_view name) override {
    const doubles::HostKernel* const found = doubles::find_host_kernel(name);
    if (found == nullptr) return error(Code::kInternal, "no kernel {}", name);
    return const_cast<doubles::HostKernel*>(found);
  }
  Status launch(void* kernel, LaunchShape shape, std::span<void*> arguments,
                StreamHandle /*stream*/) override {
    static_cast<doubles::HostKernel*>(kernel)->run(shape.blocks, shape.threads, arguments.data());
    return Status::ok();
  }
  Status begin_capture(StreamHandle /*stream*/) override { return no_graphs(); }
  Result<void*> end_capture(StreamHandle /*stream*/) override { return no_graphs(); }
  Status launch_graph(void* /*graph*/, StreamHandle /*stream*/) override { return no_graphs(); }
  void destroy_graph(void* /*graph*/) override {}
  Status enter() override { return Status::ok(); }
  void leave() override {}

 private:
  static Status no_graphs() { return error(Code::kUnsupported, "graphs are of real GPUs"); }
  void take_back(void* /*event*/) override {}

  GpuFacts facts_;
};

}  // namespace

Gpu& kernel_gpu() {
  static HostKernelGpu gpu;
  return gpu;
}

}  // namespace hvd
