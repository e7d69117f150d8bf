// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include "base/format.h"

namespace hvd {
namespace {

std::string describe_reduction(const Operation& operation, const Allreduce& allreduce) {
  std::string text = format_text("{}({}", kind_name(operation), name_of(allreduce.op));
  if (const auto root = root_of(operation)) text += format_text(", root {}", *root);
  if (allreduce.prescale != 1.0) text += format_text(", prescale {}", allreduce.prescale);
  if (allreduce.postscale != 1.0) text += format_text(", postscale {}", allreduce.postscale);
  if (allreduce.wire != Wire::kSame) text += format_text(", as {}", name_of(allreduce.wire));
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
    case ReduceOp::kBitAnd:
      return "bitwise and";
    case ReduceOp::kBitOr:
      return "bitwise or";
    case ReduceOp::kBitXor:
      return "bitwise xor";
  }
  return "unknown";
}

std::string_view name_of(Wire wire) {
  switch (wire) {
    case Wire::kSame:
      return "same";
    case Wire::kFloat16:
      return "float16";
    case Wire::kBfloat16:
      return "bfloat16";
  }
  return "unknown";
}

std::optional<Allreduce> reduction_of(const Operation& operation) {
  if (const auto* allreduce = std::get_if<Allreduce>(&operation)) return *allreduce;
  if (const auto* scatter = std::get_if<Reducescatter>(&operation)) {
    return Allreduce{scatter->op, scatter->prescale, scatter->postscale};
  }
  if (const auto* reduce = std::get_if<Reduce>(&operation)) {
    return Allreduce{reduce->op, reduce->prescale, reduce->postscale};
  }
  return std::nullopt;
}

std::optional<int> root_of(const Operation& operation) {
  if (const auto* broadcast = std::get_if<Broadcast>(&operation)) return broadcast->root;
  if (const auto* reduce = std::get_if<Reduce>(&operation)) return reduce->root;
  if (const auto* gather = std::get_if<Gather>(&operation)) return gather->root;
  if (const auto* scatter = std::get_if<Scatter>(&operation)) return scatter->root;
  return std::nullopt;
}

void set_root(Operation& operation, int root) {
  std::visit(
      [root](auto& kind) {
        if constexpr (requires { kind.root; }) kind.root = root;
      },
      operation);
}

bool has_free_rows(const Operation& operation) {
  return std::holds_alternative<Allgather>(operation) ||
         std::holds_alternative<Gather>(operation) || has_splits(operation);
}

bool has_splits(const Operation& operation) {
  return std::holds_alternative<Alltoall>(operation) || std::holds_alternative<Scatter>(operation);
}

bool has_tensors(const Operation& operation) {
  return !std::holds_alternative<Barrier>(operation) && !std::holds_alternative<Join>(operation);
}

std::string_view kind_name(const Operation& operation) { return kKindNames[operation.index()]; }

std::string describe(const Operation& operation) {
  if (const auto reduction = reduction_of(operation)) {
    return describe_reduction(operation, *reduction);
  }
  if (const auto root = root_of(operation)) {
    return format_text("{}(root {})", kind_name(operation), *root);
  }
  return std::string(kind_name(operation));
}

}  // namespace hvd
