// SPDX-License-Identifier: Apache-2.0
#include "device/driver_gpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstring>
#include <utility>

#include "device/kernels/kernel_names.h"

namespace hvd {
namespace {

vendor::Stream stream_of(StreamHandle handle) { return static_cast<vendor::Stream>(handle); }
/// As errors name it.
std::string name_of(StreamHandle stream) {
  return stream == nullptr ? "the default stream" : format_text("stream {}", stream);
}
vendor::Event event_of(const GpuEvent& event) { return static_cast<vendor::Event>(event.handle()); }

/// What drivers refuse a thread while a stream is captured. By default a capture of a framework
/// (torch.cuda.graph) forbids allocations, looks at events, and more, to all threads, and such a
/// call spoils it. What is called with a GPU entered has nothing to do with the capture of another,
/// and may be called at any time. But our own captures shall hold no such call.
struct CaptureRules {
  int entered = 0;
  bool captures = false;         ///< A stream for us.
  vendor::CaptureMode before{};  ///< The mode of the thread outside.
};
thread_local CaptureRules t_rules;

/// What this thread last found to be a stream of a GPU: a step submits many tensors of one stream.
struct KnownStream {
  std::uint64_t gpu = 0;
  StreamHandle stream = nullptr;
};
thread_local KnownStream t_known;
std::atomic<std::uint64_t> g_opened{0};

}  // namespace

Result<std::unique_ptr<DriverGpu>> DriverGpu::open(const DriverLibrary& driver, int index,
                                                   KernelImages images) {
  std::unique_ptr<DriverGpu> gpu(new DriverGpu(driver, index, images));
  gpu->id_ = ++g_opened;
  HVD_TRY(gpu->about(driver.run(gpu->calls_.device_get, &gpu->number_, index)));
  HVD_TRY(gpu->about(gpu->find_facts()));
  vendor::Context context{};
  HVD_TRY(gpu->about(driver.run(gpu->calls_.context_retain, &context, gpu->number_)));
  gpu->context_ = context;
  return gpu;
}

DriverGpu::~DriverGpu() {
  if (context_ == nullptr) return;
  if (enter().is_ok()) {
    for (const vendor::Event event : free_events_) (void)calls_.event_destroy.call(event);
    if (module_ != nullptr) (void)calls_.module_unload.call(module_);
    leave();
  }
  (void)calls_.context_release.call(number_);
}

Result<std::array<std::uint8_t, 16>> DriverGpu::uuid_of(vendor::DeviceNumber number) const {
  vendor::DeviceUuid uuid{};
  HVD_TRY(driver_.run(calls_.device_uuid, &uuid, number));
  std::array<std::uint8_t, 16> bytes{};
  static_assert(sizeof(uuid.bytes) == sizeof(bytes));
  std::memcpy(bytes.data(), uuid.bytes, sizeof(uuid.bytes));
  return bytes;
}

Status DriverGpu::find_facts() {
  std::array<char, 256> text{};
  const int size = static_cast<int>(text.size());
  HVD_TRY(driver_.run(calls_.device_name, text.data(), size, number_));
  facts_.name = text.data();
  HVD_TRY(driver_.run(calls_.device_bus_id, text.data(), size, number_));
  facts_.bus_id = text.data();
  std::transform(facts_.bus_id.begin(), facts_.bus_id.end(), facts_.bus_id.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  HVD_TRY_ASSIGN(facts_.uuid, uuid_of(number_));
  int major = 0;
  int minor = 0;
  HVD_TRY(driver_.run(calls_.device_attribute, &major, vendor::kMajor, number_));
  HVD_TRY(driver_.run(calls_.device_attribute, &minor, vendor::kMinor, number_));
  facts_.architecture = vendor::architecture(major, minor);
  return driver_.run(calls_.device_attribute, &facts_.multiprocessors, vendor::kMultiprocessors,
                     number_);
}

Status DriverGpu::about(const Status& status) const {
  if (status.is_ok()) return status;
  return status.with_context(facts_.name.empty() ? format_text("GPU {}", index_)
                                                 : format_text("GPU {} ({})", index_, facts_.name));
}

Result<std::vector<GpuPeer>> DriverGpu::peers() {
  int count = 0;
  HVD_TRY(about(driver_.run(calls_.device_count, &count)));
  std::vector<GpuPeer> peers;
  for (int index = 0; index < count; ++index) {
    if (index == index_) continue;
    vendor::DeviceNumber other{};
    int is_in_reach = 0;
    HVD_TRY(about(driver_.run(calls_.device_get, &other, index)));
    HVD_TRY(about(driver_.run(calls_.device_can_reach, &is_in_reach, number_, other)));
    HVD_TRY_ASSIGN(const auto uuid, uuid_of(other));
    peers.push_back({uuid, is_in_reach != 0});
  }
  return peers;
}

Status DriverGpu::enter() {
  HVD_TRY(about(driver_.run(calls_.context_push, context_)));
  if (t_rules.entered == 0 && !t_rules.captures) {
    t_rules.before = vendor::kNoCaptures;
    if (Status status = exchange_rules(t_rules.before); !status.is_ok()) {
      pop();
      return status;
    }
  }
  ++t_rules.entered;
  return Status::ok();
}

void DriverGpu::leave() {
  if (--t_rules.entered == 0 && !t_rules.captures) (void)exchange_rules(t_rules.before);
  pop();
}

void DriverGpu::pop() {
  vendor::Context left{};
  (void)calls_.context_pop.call(&left);
}

Status DriverGpu::exchange_rules(vendor::CaptureMode& mode) {
  return about(driver_.run(calls_.exchange_capture_mode, &mode));
}

Result<StreamHandle> DriverGpu::create_stream() {
  int lowest = 0;
  int highest = 0;
  HVD_TRY(run(calls_.stream_priorities, &lowest, &highest));
  vendor::Stream stream{};
  HVD_TRY(run(calls_.stream_create, &stream, vendor::kStreamFlags, highest));
  return StreamHandle{stream};
}

void DriverGpu::destroy_stream(StreamHandle stream) {
  (void)run(calls_.stream_destroy, stream_of(stream));
}

/// Two calls of the driver in place of six. A null stream is that of the GPU which is current.
bool DriverGpu::is_known_and_free(StreamHandle stream) const {
  if (t_known.gpu != id_ || t_known.stream != stream) return false;
  vendor::StreamOwner current{};
  vendor::CaptureStatus status{};
  return calls_.current.call(&current) == vendor::kSuccess &&
         vendor::is_of(current, context_, number_) &&
         calls_.stream_is_capturing.call(stream_of(stream), &status) == vendor::kSuccess &&
         status == vendor::kNotCapturing;
}

Status DriverGpu::check_stream(StreamHandle stream) {
  if (is_known_and_free(stream)) return Status::ok();
  if (vendor::is_per_thread(stream_of(stream))) {
    return about(error(Code::kUnsupported,
                       "the default stream of each thread means another stream on every thread; "
                       "give a stream of its own, or the legacy default stream"));
  }
  const CurrentGpu current(*this);
  HVD_TRY(current.status());
  vendor::StreamOwner owner{};
  const vendor::ErrorCode known = calls_.stream_owner.call(stream_of(stream), &owner);
  if (known != vendor::kSuccess) {
    Status failure = about(driver_.failure(calls_.stream_owner.name, known));
    if (known == vendor::kInvalidHandle) {
      return error(Code::kInvalidArgument, "{}: {}", name_of(stream), failure.message());
    }
    if (known != vendor::kNotSupported) return failure;  // what ran before spoilt the GPU
    return error(Code::kUnsupported,
                 "{}: {}; streams of a green context are not served: give another one (PyTorch: "
                 "torch.cuda.Stream), or the default stream",
                 name_of(stream), failure.message());
  }
  if (!vendor::is_of(owner, context_, number_)) {
    return about(error(Code::kInvalidArgument,
                       "{} belongs to another GPU; give one of the GPU that holds the tensors "
                       "(PyTorch: with torch.cuda.device({}))",
                       name_of(stream), index_));
  }
  vendor::CaptureStatus status{};
  const vendor::ErrorCode code = calls_.stream_is_capturing.call(stream_of(stream), &status);
  if (code == vendor::kSuccess && status == vendor::kNotCapturing) {
    t_known = {id_, stream};
    return Status::ok();
  }
  if (code == vendor::kCaptureInTurn) {
    return about(error(Code::kUnsupported,
                       "{} cannot be used while a stream that takes turns with it is captured into "
                       "a graph; give a stream of its own, or capture a non-blocking one",
                       name_of(stream)));
  }
  if (code != vendor::kSuccess) {
    return about(driver_.failure(calls_.stream_is_capturing.name, code));
  }
  return about(
      error(Code::kUnsupported,
            "{} is being captured into a graph, which cannot agree with other ranks when "
            "it runs; call collectives before or after the capture, or give a stream that "
            "is not captured (PyTorch: outside of torch.cuda.graph, and of what torch.compile "
            "compiles with mode=\"reduce-overhead\")",
            name_of(stream)));
}

Result<vendor::Event> DriverGpu::take_event() {
  {
    Lock lock(mutex_);
    if (!free_events_.empty()) {
      const vendor::Event event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  vendor::Event event{};
  HVD_TRY(run(calls_.event_create, &event, vendor::kEventFlags));
  return event;
}

void DriverGpu::take_back(void* event) {
  Lock lock(mutex_);
  free_events_.push_back(static_cast<vendor::Event>(event));
}

Result<GpuEventPtr> DriverGpu::record(StreamHandle stream) {
  HVD_TRY_ASSIGN(const vendor::Event event, take_event());
  auto point = std::make_shared<const GpuEvent>(*this, event, stream);
  HVD_TRY(run(calls_.event_record, event, stream_of(stream)));
  return GpuEventPtr(std::move(point));
}

Status DriverGpu::make_wait(StreamHandle stream, const GpuEvent& event) {
  // What is put into a stream runs after what is there.
  if (stream == event.stream() && &event.gpu() == this) return Status::ok();
  return run(calls_.stream_wait_event, stream_of(stream), event_of(event), 0U);
}

Result<bool> DriverGpu::has_happened(const GpuEvent& event) {
  HVD_TRY(enter());
  const vendor::ErrorCode code = calls_.event_query.call(event_of(event));
  leave();
  if (code == vendor::kSuccess) return true;
  if (code == vendor::kNotReady) return false;
  return about(driver_.failure(calls_.event_query.name, code));
}

Status DriverGpu::wait(const GpuEvent& event) { return run(calls_.event_wait, event_of(event)); }

Result<void*> DriverGpu::allocate(std::size_t bytes) {
  vendor::Address address{};
  const Status status = run(calls_.memory_allocate, &address, std::max<std::size_t>(bytes, 1));
  if (!status.is_ok()) return status.with_context(format_text("allocating {} bytes", bytes));
  return vendor::to_pointer(address);
}

void DriverGpu::deallocate(void* memory) {
  if (memory != nullptr) (void)run(calls_.memory_free, vendor::to_address(memory));
}

Result<void*> DriverGpu::allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const Status status =
      run(calls_.pinned_allocate, &memory, std::max<std::size_t>(bytes, 1), vendor::kPinnedFlags);
  if (!status.is_ok()) return status.with_context(format_text("pinning {} bytes", bytes));
  return memory;
}

void DriverGpu::deallocate_pinned(void* memory) {
  if (memory != nullptr) (void)run(calls_.pinned_free, memory);
}

Status DriverGpu::copy(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return Status::ok();
  HVD_TRY(enter());
  const vendor::ErrorCode code = vendor::copy(calls_, to, from, bytes, stream_of(stream));
  leave();
  if (code == vendor::kSuccess) return Status::ok();
  return about(driver_.failure(calls_.copy.name, code))
      .with_context(format_text("copying {} bytes", bytes));
}

Status DriverGpu::set_bytes(void* memory, std::uint8_t value, std::size_t bytes,
                            StreamHandle stream) {
  if (bytes == 0) return Status::ok();
  return run(calls_.set_bytes, vendor::to_address(memory), value, bytes, stream_of(stream));
}

Status DriverGpu::load_kernels() {
  const std::span<const std::byte> image = images_(facts_.architecture);
  if (image.empty()) {
    return about(error(Code::kUnsupported,
                       "this build has no kernels for {}; hvdrun check --build lists what it has",
                       vendor::architecture_name(facts_.architecture)));
  }
  HVD_TRY(run(calls_.module_load, &module_, static_cast<const void*>(image.data())));
  // All of them now: drivers load the code of a kernel as it is asked for (CUDA_MODULE_LOADING),
  // and may wait for all that the device does, with the whole context locked. Later that may be a
  // collective that waits for other ranks.
  for (const std::string_view name : kKernelNames) HVD_TRY(find_kernel(name));
  return Status::ok();
}

Status DriverGpu::find_kernel(std::string_view name) {
  vendor::Function function{};
  const std::string symbol(name);
  if (const Status status = run(calls_.module_function, &function, module_, symbol.c_str());
      !status.is_ok()) {
    return Status(Code::kInternal, format_text("kernel {}: {}", name, status.message()));
  }
  kernels_.emplace(symbol, function);
  return Status::ok();
}

Result<void*> DriverGpu::kernel(std::string_view name) {
  Lock lock(mutex_);
  if (module_ == nullptr) HVD_TRY(load_kernels());
  auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    HVD_TRY(find_kernel(name));
    found = kernels_.find(name);
  }
  return static_cast<void*>(found->second);
}

Status DriverGpu::launch(void* kernel, LaunchShape shape, std::span<void*> arguments,
                         StreamHandle stream) {
  return run(calls_.launch, static_cast<vendor::Function>(kernel), shape.blocks, 1U, 1U,
             shape.threads, 1U, 1U, 0U, stream_of(stream), arguments.data(),
             static_cast<void**>(nullptr));
}

Status DriverGpu::begin_capture(StreamHandle stream) {
  const CurrentGpu current(*this);
  HVD_TRY(current.status());
  vendor::CaptureMode mode = vendor::kOwnCaptures;
  HVD_TRY(exchange_rules(mode));
  t_rules.captures = true;
  Status begun = run(calls_.stream_begin_capture, stream_of(stream), vendor::kOwnCaptures);
  if (!begun.is_ok()) forget_capture();
  return begun;
}

void DriverGpu::forget_capture() {
  if (!std::exchange(t_rules.captures, false)) return;
  vendor::CaptureMode mode = vendor::kNoCaptures;
  (void)exchange_rules(mode);
}

Result<void*> DriverGpu::end_capture(StreamHandle stream) {
  const CurrentGpu current(*this);
  HVD_TRY(current.status());
  vendor::Graph graph{};
  const Status ended = run(calls_.stream_end_capture, stream_of(stream), &graph);
  forget_capture();
  HVD_TRY(ended);
  vendor::GraphInstance instance{};
  const Status status = run(calls_.graph_instantiate, &instance, graph, 0ULL);
  (void)run(calls_.graph_destroy, graph);
  HVD_TRY(status);
  return static_cast<void*>(instance);
}

Status DriverGpu::launch_graph(void* graph, StreamHandle stream) {
  return run(calls_.graph_launch, static_cast<vendor::GraphInstance>(graph), stream_of(stream));
}

void DriverGpu::destroy_graph(void* graph) {
  if (graph == nullptr) return;
  (void)run(calls_.graph_instance_destroy, static_cast<vendor::GraphInstance>(graph));
}

}  // namespace hvd
