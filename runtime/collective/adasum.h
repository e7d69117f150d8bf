// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collective/data_type.h"

namespace hvd {

/// Adasum, the adaptive sum of two gradients a and b:
///
///   adasum(a, b) = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
///
/// Orthogonal gradients add, equal ones are averaged, and whatever lies between is weighted by what
/// the two have in common, so that a larger world needs no smaller learning rate. Source: Maleki
/// et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021.
///
/// The dot products are in float64, chunk after chunk, with the same bits on every processor. A
/// gradient of length zero takes nothing from the other one. `result` may be `lower` or `higher`.
/// `real` is kFloat32 or kFloat64; the formula is symmetric, but its bits are not, so both partners
/// of a pair call it with the gradient of the lower rank first.
void adasum(DataType real, void* result, const void* lower, const void* higher, std::size_t count);

/// The squares of the lengths of two gradients and their product, as sums over chunks.
struct AdasumDots {
  double lower = 0;
  double higher = 0;
  double product = 0;
};
struct AdasumWeights {
  double lower = 1;
  double higher = 1;
};
/// adasum() step by step: measure chunk after chunk, weigh the sums, blend in any pieces.
inline constexpr std::size_t kAdasumChunk = std::size_t{16} << 10;  // elements
void measure_adasum(DataType real, const void* lower, const void* higher, std::size_t count,
                    AdasumDots& dots);
AdasumWeights adasum_weights(const AdasumDots& dots);
void blend_adasum(DataType real, void* result, const void* lower, const void* higher,
                  std::size_t count, const AdasumWeights& weights);

/// Who meets whom in an Adasum over ranks 0..size-1: recursive doubling over the largest power of
/// two; of the first ranks, as many as there are too many, take in their right neighbour's gradient
/// before and hand the result back afterwards. The association depends on `size` alone.
/// Immutable after construction.
class AdasumSchedule {
 public:
  explicit AdasumSchedule(int size);

  /// What one rank does at one level.
  struct Step {
    int peer = -1;          ///< -1: it rests.
    bool sends = false;     ///< Its gradient goes to the peer.
    bool receives = false;  ///< The peer's comes here: to be combined, or at the end to replace.
    bool combines = false;
  };
  int levels() const { return doublings_ + (extra_ > 0 ? 2 : 0); }
  Step step(int level, int rank) const;

  /// The levels between: doublings, and whether some ranks stand aside.
  int doublings() const { return doublings_; }
  Step doubling(int doubling, int rank) const;
  bool has_extra() const { return extra_ > 0; }

 private:
  Step step_aside(int rank, bool before) const;

  int extra_;      // ranks beyond the largest power of two
  int doublings_;  // its exponent
};

struct AdasumKernels {
  AdasumDots (*measure)(const void* lower, const void* higher, std::size_t count);
  void (*blend)(void* result, const void* lower, const void* higher, std::size_t count,
                const AdasumWeights& weights);
};
/// The same loops for any processor of the architecture and for newer ones; all give the same bits.
AdasumKernels baseline_adasum_kernels(bool is_double);
AdasumKernels avx2_adasum_kernels(bool is_double);
using AdasumKernelFinder = AdasumKernels (*)(bool is_double);
/// The fastest that this processor runs.
AdasumKernelFinder best_adasum_finder();

}  // namespace hvd
