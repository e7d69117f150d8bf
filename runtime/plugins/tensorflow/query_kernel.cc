// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/query_kernel.h"

#include <cstdint>

#include "hvd/hvd.h"
#include "plugins/tensorflow/element_types.h"
#include "plugins/tensorflow/failure.h"
#include "plugins/tensorflow/operations.h"

namespace hvd::tensorflow {

namespace {

struct Query {
  Question what;
  int process_set;
};

void* create(TF_OpKernelConstruction* construction) {
  const OwnedStatus status;
  std::int64_t what = 0;
  std::int64_t process_set = 0;
  tf().TF_OpKernelConstruction_GetAttrInt64(construction, "what", &what, status.get());
  if (status.ok()) {
    tf().TF_OpKernelConstruction_GetAttrInt64(construction, "process_set", &process_set,
                                              status.get());
  }
  if (status.ok()) return new Query{static_cast<Question>(what), static_cast<int>(process_set)};
  tf().TF_OpKernelConstruction_Failure(construction, status.get());
  return nullptr;
}

int answer(const Query& query) {
  switch (query.what) {
    case Question::kRank:
      return hvd_rank();
    case Question::kSize:
      return hvd_process_set_size(query.process_set);
    case Question::kLocalRank:
      return hvd_local_rank();
    case Question::kLocalSize:
      return hvd_local_size();
    case Question::kIncluded:
      if (hvd_process_set_size(query.process_set) < 0) return -1;
      return hvd_process_set_rank(query.process_set) >= 0 ? 1 : 0;
  }
  return -1;
}

void compute(void* kernel, TF_OpKernelContext* context) {
  const auto& query = *static_cast<const Query*>(kernel);
  const OwnedStatus status;
  const int result = answer(query);
  const bool is_initialized = hvd_rank() >= 0;  // else its sentence is the last error
  if (!is_initialized || (result < 0 && query.what != Question::kIncluded)) {
    set_failure(status.get(), is_initialized ? HVD_INVALID_ARGUMENT : HVD_ABORTED,
                hvd_last_error());
    tf().TF_OpKernelContext_Failure(context, status.get());
    return;
  }
  TF_Tensor* const output =
      tf().TF_AllocateOutput(context, 0, kTfInt32, nullptr, 0, sizeof(std::int32_t), status.get());
  if (!status.ok()) {
    tf().TF_OpKernelContext_Failure(context, status.get());
    return;
  }
  *static_cast<std::int32_t*>(tf().TF_TensorData(output)) = result;
  tf().TF_DeleteTensor(output);
}

void destroy_query(void* kernel) { delete static_cast<Query*>(kernel); }

}  // namespace

std::string register_query_kernel() {
  const OwnedStatus status;
  TF_KernelBuilder* const builder =
      tf().TF_NewKernelBuilder("HvdQuery", "CPU", create, compute, destroy_query);
  tf().TF_RegisterKernelBuilder("HvdQuery", builder, status.get());  // takes the builder
  return status.ok() ? "" : tf().TF_Message(status.get());
}

}  // namespace hvd::tensorflow
