// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/told_by_all.h"

namespace hvd {

Result<std::unique_ptr<ToldByAll>> ToldByAll::start(const BackendContext& context,
                                                    std::span<const std::byte> mine) {
  std::unique_ptr<ToldByAll> told(new ToldByAll(mine));
  told->all_.resize(mine.size() * static_cast<std::size_t>(context.communicator.size));
  Batch batch;
  batch.operation = Allgather{};
  batch.dtype = DataType::kUint8;
  batch.segments = {{told->mine_.data(), nullptr, told->mine_.size(), 1}};
  batch.allocate = [all = told.get()](std::size_t, std::span<const std::size_t>) -> Result<void*> {
    return static_cast<void*>(all->all_.data());
  };
  HVD_TRY_ASSIGN(told->task_, context.gpu.start_on_host(std::move(batch)));
  return told;
}

}  // namespace hvd
