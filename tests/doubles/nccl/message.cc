// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/message.h"

#include <array>
#include <string_view>

namespace double_nccl {
namespace {

struct Type {
  std::string_view name;
  std::size_t bytes;
};
// In the order of ncclDataType_t.
constexpr std::array<Type, 12> kTypes = {{{"int8", 1},
                                          {"uint8", 1},
                                          {"int32", 4},
                                          {"uint32", 4},
                                          {"int64", 8},
                                          {"uint64", 8},
                                          {"float16", 2},
                                          {"float32", 4},
                                          {"float64", 8},
                                          {"bfloat16", 2},
                                          {"float8_e4m3", 1},
                                          {"float8_e5m2", 1}}};
constexpr std::array<std::string_view, 9> kKinds = {"AllReduce", "Broadcast",     "Reduce",
                                                    "AllGather", "ReduceScatter", "Send",
                                                    "Recv",      "Split",         "WindowRegister"};
constexpr std::array<std::string_view, 6> kFolds = {"sum", "product", "max",
                                                    "min", "average", "scaled sum"};

}  // namespace

std::size_t size_of(ncclDataType_t dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kTypes.size() ? kTypes[index].bytes : 0;
}

std::string describe(const Operation& operation) {
  std::string text(kKinds[static_cast<std::size_t>(operation.kind)]);
  if (operation.kind == Kind::kSplit) return text;
  text += " of " + std::to_string(operation.count);
  if (operation.kind == Kind::kWindow) {
    return text + " bytes in place " + std::to_string(operation.key);
  }
  text += " ";
  text += kTypes[static_cast<std::size_t>(operation.dtype)].name;
  switch (operation.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
    case Kind::kReduce:
      text += " (";
      text += kFolds[static_cast<std::size_t>(operation.fold)];
      text += ")";
      break;
    default:
      break;
  }
  constexpr std::array kRegistered = {"", " from registered memory", " to registered memory",
                                      " in registered memory"};
  text += kRegistered[operation.registered];
  switch (operation.kind) {
    case Kind::kBroadcast:
    case Kind::kReduce:
      return text + ", root " + std::to_string(operation.root);
    case Kind::kSend:
      return text + " to rank " + std::to_string(operation.root);
    case Kind::kRecv:
      return text + " from rank " + std::to_string(operation.root);
    default:
      return text;
  }
}

}  // namespace double_nccl
