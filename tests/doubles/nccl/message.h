// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nccl.h>

namespace double_nccl {

using Bytes = std::vector<std::byte>;

enum class Kind : std::uint32_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kSend,
  kRecv,
  kSplit,
  kWindow,
};

/// A reduction as the wire knows it: a made one is its kind and its scalar.
enum class Fold : std::uint32_t { kSum, kProduct, kMax, kMin, kAverage, kScaledSum };

/// What a rank says that it does; what must agree between ranks does not depend on the rank.
struct Operation {
  Kind kind = Kind::kAllReduce;
  Fold fold = Fold::kSum;
  ncclDataType_t dtype = ncclInt8;
  std::int32_t root = 0;  ///< The peer of kSend and kRecv, the color of kSplit.
  std::int32_t key = 0;   ///< Of kSplit; the place of kWindow.
  std::uint64_t count = 0;
  std::uint64_t scalar = 0;  ///< Bits of kScaledSum's factor, of this rank.
  /// Of a collective without root: 1, what is sent is registered; 2, what comes; or both.
  std::uint32_t registered = 0;
};

enum class FrameKind : std::uint32_t { kHello, kReady, kOperation, kResult, kFailed, kBye };

/// What goes over the socket, followed by `bytes` of payload.
struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::int32_t code = 0;     ///< ncclResult_t of kFailed, whose payload is the text.
  std::uint64_t ticket = 0;  ///< Links kResult to kOperation, or kBye.
  Operation operation;
  std::uint64_t bytes = 0;
};

/// Payload of kHello.
struct Hello {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t version = 0;
  char gpu[96] = {};  ///< Host and uuid: equal for two ranks on one GPU.
};

/// Payload of the result of kSplit.
struct Child {
  std::int32_t rank = -1;
  std::int32_t size = 0;
  ncclUniqueId id{};
};

/// 0: there is no such type.
std::size_t size_of(ncclDataType_t dtype);
/// "AllReduce of 5 float32 (sum)".
std::string describe(const Operation& operation);

}  // namespace double_nccl
