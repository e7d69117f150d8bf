// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include "base/format.h"

namespace hvd {
namespace {

std::string describe_allreduce(const Allreduce& allreduce) {
  std::string text = format_text("allreduce({}", name_of(allreduce.op));
  if (allreduce.prescale != 1.0) text += format_text(", prescale {}", allreduce.prescale);
  if (allreduce.postscale != 1.0) text += format_text(", postscale {}", allreduce.postscale);
  return text + ")";
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAdasum:
      return "adasum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

std::string_view kind_name(const Operation& operation) {
  constexpr std::string_view kNames[] = {"allreduce", "allgather", "broadcast", "barrier"};
  static_assert(std::size(kNames) == std::variant_size_v<Operation>);
  return kNames[operation.index()];
}

std::string describe(const Operation& operation) {
  if (const auto* allreduce = std::get_if<Allreduce>(&operation)) {
    return describe_allreduce(*allreduce);
  }
  if (const auto* broadcast = std::get_if<Broadcast>(&operation)) {
    return format_text("broadcast(root {})", broadcast->root);
  }
  return std::string(kind_name(operation));
}

}  // namespace hvd
