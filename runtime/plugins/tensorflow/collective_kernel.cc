// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/collective_kernel.h"

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "plugins/tensorflow/collective_call.h"
#include "plugins/tensorflow/failure.h"

namespace hvd::tensorflow {

namespace {

/// Reads attributes; after a failure, which `status` keeps, nothing more.
struct Attributes {
  TF_OpKernelConstruction* construction;
  TF_Status* status;

  bool ok() const { return is_ok(status); }

  std::int64_t integer(const char* name) const {
    std::int64_t value = 0;
    if (ok()) tf().TF_OpKernelConstruction_GetAttrInt64(construction, name, &value, status);
    return value;
  }

  std::int32_t number(const char* name) const { return static_cast<std::int32_t>(integer(name)); }

  /// A double by its bits; 0, the default of an attribute, is 1.
  double scale(const char* name) const {
    const std::int64_t bits = integer(name);
    return bits == 0 ? 1.0 : std::bit_cast<double>(bits);
  }

  std::string text(const char* name) const {
    std::int32_t list_size = 0;
    std::int32_t bytes = 0;
    if (ok()) {
      tf().TF_OpKernelConstruction_GetAttrSize(construction, name, &list_size, &bytes, status);
    }
    std::string value(ok() ? static_cast<std::size_t>(bytes) : 0, '\0');
    if (!value.empty()) {
      tf().TF_OpKernelConstruction_GetAttrString(construction, name, value.data(), value.size(),
                                                 status);
    }
    return value;
  }
};

void* create(const Operation& operation, TF_OpKernelConstruction* construction) {
  const OwnedStatus status;
  const Attributes attributes{construction, status.get()};
  auto kernel = std::make_unique<CollectiveKernel>(
      CollectiveKernel{operation, attributes.text("tensor_name"), HVD_REQUEST_INITIALIZER});
  hvd_request& request = kernel->request;
  request.kind = operation.kind;
  request.reduce_op = attributes.number("reduce_op");
  request.prescale = attributes.scale("prescale_bits");
  request.postscale = attributes.scale("postscale_bits");
  request.process_set = attributes.number("process_set");
  request.root = attributes.number("root");
  request.wire = attributes.number("wire");
  request.priority = attributes.number("priority");
  if (attributes.ok()) return kernel.release();
  tf().TF_OpKernelConstruction_Failure(construction, status.get());
  return nullptr;
}

/// TensorFlow gives a creator no argument of ours: one creator for each operation.
template <std::size_t kIndex>
void* create_at(TF_OpKernelConstruction* construction) {
  return create(operations()[kIndex], construction);
}

/// XLA compiles a whole step or nothing: the kernel that it asks for says so, and never runs.
void* refuse_compilation(TF_OpKernelConstruction* construction) {
  const OwnedStatus status;
  set_failure(status.get(), HVD_UNSUPPORTED,
              "XLA has no collectives: set jit_compile=False on the tf.function (or in "
              "model.compile) that holds them; functions inside without any may be compiled");
  tf().TF_OpKernelConstruction_Failure(construction, status.get());
  return nullptr;
}

void compute_nothing(void*, TF_OpKernelContext*) {}

void destroy_nothing(void*) {}

void compute(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  start_call(*static_cast<const CollectiveKernel*>(kernel), context, DoneCallback(done));
}

void destroy(void* kernel) { delete static_cast<CollectiveKernel*>(kernel); }

constexpr std::size_t kOperationCount = 8;

template <std::size_t... kIndices>
std::string register_each(std::index_sequence<kIndices...>) {
  const OwnedStatus status;
  const auto register_one = [&](std::size_t index, void* (*creator)(TF_OpKernelConstruction*)) {
    if (!status.ok()) return;
    const char* const op = operations()[index].op;
    TF_KernelBuilder* const builder =
        tf().TF_NewAsyncKernelBuilder(op, "CPU", creator, compute, destroy);
    tf().TF_RegisterKernelBuilder(op, builder, status.get());  // takes the builder
  };
  (register_one(kIndices, create_at<kIndices>), ...);
  for (const Operation& operation : operations()) {
    for (const char* device : {"XLA_CPU_JIT", "XLA_GPU_JIT"}) {
      if (!status.ok()) break;
      const std::string name = std::string(operation.op) + device;
      tf().TF_RegisterKernelBuilder(
          name.c_str(),
          tf().TF_NewKernelBuilder(operation.op, device, refuse_compilation, compute_nothing,
                                   destroy_nothing),
          status.get());
    }
  }
  return status.ok() ? "" : tf().TF_Message(status.get());
}

}  // namespace

std::string register_collective_kernels() {
  if (operations().size() != kOperationCount) return "the plugin has kernels for other operations";
  return register_each(std::make_index_sequence<kOperationCount>());
}

}  // namespace hvd::tensorflow
