// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_holdings.h"

namespace hvd {

Result<std::shared_ptr<NcclHoldings>> NcclHoldings::open(const NcclLibrary& library, Gpu& gpu,
                                                         Options options) {
  HVD_TRY_ASSIGN(const StreamHandle stream, gpu.create_stream());
  return std::shared_ptr<NcclHoldings>(new NcclHoldings(library, gpu, options, stream));
}

NcclHoldings::NcclHoldings(const NcclLibrary& library, Gpu& gpu, Options options,
                           StreamHandle stream)
    : library_(library),
      gpu_(gpu),
      stream_(stream),
      communicator_(library_, gpu),
      bucket_(communicator_, options.registration),
      spare_(communicator_, NcclRegistration::kNone),
      watcher_(std::make_unique<EventWatcher>()) {
  if (options.uses_graphs) graphs_ = std::make_unique<NcclGraphs>(gpu, stream);
}

NcclHoldings::~NcclHoldings() {
  const CurrentGpu current(gpu_);
  watcher_.reset();
  graphs_.reset();
  // NCCL deregisters memory only while the communicator works, and ends what uses it afterwards.
  bucket_.release();
  spare_.release();
  communicator_.finish();
  gpu_.destroy_stream(stream_);
}

void NcclHoldings::abort() {
  const CurrentGpu current(gpu_);
  communicator_.abort();
  // Behind NCCL's kernels are ours, which write to tensors as well.
  const auto end = gpu_.record(stream_);
  if (end.is_ok()) static_cast<void>(gpu_.wait(*end.value()));
}

}  // namespace hvd
