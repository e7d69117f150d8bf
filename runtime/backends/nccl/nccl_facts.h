// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "collective/communicator.h"

namespace hvd {

/// What a rank tells the others before they make a communicator. Travels as it lies in memory.
struct NcclFacts {
  /// Other GPUs of a node: more are not told.
  static constexpr std::size_t kMostPeers = 16;
  std::int32_t version = 0;              ///< Of NCCL: 22809.
  std::int32_t visible_gpus = 0;         ///< Of this process.
  std::array<std::uint8_t, 16> uuid{};   ///< Of its GPU.
  std::array<char, 24> bus_id{};         ///< Texts end with a zero.
  std::array<char, 72> gpu{};            ///< "NVIDIA H100 80GB HBM3".
  std::uint64_t host_id = 0;             ///< A hash of NCCL_HOSTID; 0: it is not set.
  std::uint8_t shares_gpu = 0;           ///< HVD_SHARE_GPU=1.
  std::uint8_t is_confined = 0;          ///< Other GPUs of the node are closed to this process.
  std::uint8_t is_failed = 0;            ///< `problem` is a failure, nothing to be worked around.
  std::uint8_t peers = 0;                ///< How many of `peer_gpus` there are.
  std::uint32_t peers_out_of_reach = 0;  ///< A bit for each of them.
  std::array<std::uint64_t, kMostPeers> peer_gpus{};  ///< Hashes of other GPUs that it sees.
  std::uint8_t reduces_float8 = 0;                    ///< Its NCCL and its GPU add 8-bit floats.
  std::uint8_t registers = 1;                         ///< HVD_NCCL_REGISTER.
  std::array<char, 6> padding{};
  std::array<char, 128> unique_id{};  ///< Of rank 0.
  std::array<char, 384> problem{};    ///< Why this rank cannot; empty: it can.

  /// Of a GPU's uuid, for `peer_gpus`.
  static std::uint64_t hash_of(const std::array<std::uint8_t, 16>& uuid);
  void add_peer(const std::array<std::uint8_t, 16>& gpu, bool is_in_reach);
};
static_assert(std::is_trivially_copyable_v<NcclFacts> && sizeof(NcclFacts) == 784);

/// Copies as much of `text` as fits, and a zero.
void put_text(std::span<char> field, std::string_view text);
std::string_view text_of(std::span<const char> field);

/// What comes of the facts of all ranks: the same on every rank.
struct NcclAgreement {
  /// kUnsupported: some rank has no NCCL, so that the tensors go another way. Else what is wrong
  /// names the ranks, and what to do.
  Status status;
  std::vector<std::string> notices;  ///< What works, but not well.
  bool reduces_float8 = false;       ///< All ranks do.
};
/// `facts` by rank of the communicator. Pure.
NcclAgreement agree_on_nccl(std::span<const NcclFacts> facts, const Communicator& communicator);

/// True when the folder (/dev) lists GPUs that this process may not open, as where Slurm gives each
/// task its own by a device cgroup, and no more that it may open than the `visible` ones: others of
/// the job are not hidden but closed.
bool is_confined_to(int visible, const std::string& folder);

}  // namespace hvd
