// SPDX-License-Identifier: Apache-2.0
#include "collective/operation.h"

#include <type_traits>

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

std::optional<Operation> operation_of(std::size_t kind) {
  static constexpr auto kMakers = []<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    using Maker = Operation (*)();
    return std::array{
        static_cast<Maker>([] { return Operation(std::in_place_index<kIndices>); })...};
  }
  (std::make_index_sequence<kKindCount>());
  if (kind >= kMakers.size()) return std::nullopt;
  return kMakers[kind]();
}

std::optional<Allreduce> reduction_of(const Operation& operation) {
  return std::visit(
      [](const auto& one) -> std::optional<Allreduce> {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Allreduce>) {
          return one;
        } else if constexpr (requires { one.op; }) {
          return Allreduce{one.op, one.prescale, one.postscale};
        } else {
          return std::nullopt;
        }
      },
      operation);
}

std::optional<int> root_of(const Operation& operation) {
  return std::visit(
      [](const auto& one) -> std::optional<int> {
        if constexpr (requires { one.root; }) return one.root;
        return std::nullopt;
      },
      operation);
}

void set_root(Operation& operation, int root) {
  std::visit(
      [root](auto& one) {
        if constexpr (requires { one.root; }) one.root = root;
      },
      operation);
}

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
