// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collective/data_type.h"
#include "collective/operation.h"

namespace hvd {

/// How the elements of a tensor become the elements that travel: float32 and float64 may travel as
/// a half type. The prescale is applied on the way in, in the tensor's own type; float64 is rounded
/// to float32 first. Immutable after construction.
struct WireCast {
  DataType element = DataType::kFloat32;  ///< Of the tensor.
  DataType wire = DataType::kFloat32;     ///< Of what travels; the same where nothing is cast.
  double prescale = 1.0;

  static WireCast of(const Allreduce& allreduce, DataType element);
  /// Of any operation: those that reduce nothing cast nothing.
  static WireCast of_operation(const Operation& operation, DataType element);

  bool is_cast() const { return element != wire; }
  /// Elements to what travels, and back. Only where is_cast().
  void narrow(void* wire_elements, const void* elements, std::size_t count) const;
  void widen(void* elements, const void* wire_elements, std::size_t count) const;
};

using WireCastKernel = void (*)(void* destination, const void* source, std::size_t count,
                                double factor);
struct WireCastKernels {
  WireCastKernel narrow;
  WireCastKernel widen;
};
/// The same loops for any processor of the architecture and for newer ones; all give the same bits.
WireCastKernels baseline_wire_casts(DataType element, DataType wire);
WireCastKernels avx2_wire_casts(DataType element, DataType wire);
using WireCastFinder = WireCastKernels (*)(DataType element, DataType wire);
/// The fastest that this processor runs.
WireCastFinder best_wire_cast_finder();

}  // namespace hvd
