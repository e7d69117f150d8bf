// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd {

/// 64 bits that stand for some memory, to compare replicas of a model over ranks.
///
/// Each word enters by a step that is a bijection of the word and of what came before. So two
/// memories of one length whose difference lies within one aligned 64-bit word, a flipped bit say,
/// never have the same digest. Other differences share one with a probability of about 2^-64, in
/// any place and order. Not meant against adversaries.
///
/// `seed`: the digest of what came before, to make one digest of many pieces of memory. Digests of
/// the same memory with different seeds differ.
std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace hvd
