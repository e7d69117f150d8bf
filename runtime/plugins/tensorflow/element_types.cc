// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/element_types.h"

namespace hvd::tensorflow {

namespace {

struct ElementType {
  int tf_type;  ///< tensorflow/c/tf_datatype.h
  hvd_dtype type;
  std::size_t bytes;
};

constexpr ElementType kTypes[] = {
    {1, HVD_FLOAT32, 4},  {2, HVD_FLOAT64, 8},   {3, HVD_INT32, 4},     {4, HVD_UINT8, 1},
    {5, HVD_INT16, 2},    {6, HVD_INT8, 1},      {8, HVD_COMPLEX64, 8}, {kTfInt64, HVD_INT64, 8},
    {10, HVD_BOOL, 1},    {14, HVD_BFLOAT16, 2}, {17, HVD_UINT16, 2},   {18, HVD_COMPLEX128, 16},
    {19, HVD_FLOAT16, 2}, {22, HVD_UINT32, 4},   {23, HVD_UINT64, 8},
};

const ElementType* find(int tf_type) {
  for (const ElementType& type : kTypes) {
    if (type.tf_type == tf_type) return &type;
  }
  return nullptr;
}

}  // namespace

int hvd_type_of(int tf_type) {
  const ElementType* const type = find(tf_type);
  return type == nullptr ? -1 : static_cast<int>(type->type);
}

std::size_t element_bytes(int tf_type) {
  const ElementType* const type = find(tf_type);
  return type == nullptr ? 0 : type->bytes;
}

}  // namespace hvd::tensorflow
