// SPDX-License-Identifier: Apache-2.0
#include "collective/wire_cast.h"

namespace hvd {
namespace {

WireCastKernels kernels_of(const WireCast& cast) {
  static const WireCastFinder find = best_wire_cast_finder();
  return find(cast.element, cast.wire);
}

}  // namespace

WireCast WireCast::of(const Allreduce& allreduce, DataType element) {
  const bool may_cast = element == DataType::kFloat32 || element == DataType::kFloat64;
  if (allreduce.wire == Wire::kSame || !may_cast) return {.element = element, .wire = element};
  return {.element = element,
          .wire = allreduce.wire == Wire::kFloat16 ? DataType::kFloat16 : DataType::kBfloat16,
          .prescale = allreduce.prescale};
}

WireCast WireCast::of_operation(const Operation& operation, DataType element) {
  const auto* allreduce = std::get_if<Allreduce>(&operation);
  return of(allreduce == nullptr ? Allreduce{} : *allreduce, element);
}

void WireCast::narrow(void* wire_elements, const void* elements, std::size_t count) const {
  kernels_of(*this).narrow(wire_elements, elements, count, prescale);
}

void WireCast::widen(void* elements, const void* wire_elements, std::size_t count) const {
  kernels_of(*this).widen(elements, wire_elements, count, 1.0);
}

}  // namespace hvd
