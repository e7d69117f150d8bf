// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/op_definitions.h"

#include <iterator>
#include <string>

#include "plugins/tensorflow/failure.h"
#include "plugins/tensorflow/operations.h"
#include "plugins/tensorflow/output_shapes.h"

namespace hvd::tensorflow {

namespace {

constexpr Operation kOperations[] = {
    {"HvdAllreduce", HVD_ALLREDUCE, Rows::kSame, false},
    {"HvdBroadcast", HVD_BROADCAST, Rows::kSame, false},
    {"HvdReducescatter", HVD_REDUCESCATTER, Rows::kShare, false},
    {"HvdReduce", HVD_REDUCE, Rows::kAtRoot, false},
    {"HvdAllgather", HVD_ALLGATHER, Rows::kCounted, false},
    {"HvdGather", HVD_GATHER, Rows::kCounted, false},
    {"HvdAlltoall", HVD_ALLTOALL, Rows::kCounted, true},
    {"HvdScatter", HVD_SCATTER, Rows::kCounted, true},
};

constexpr const char* kTypeAttribute =
    "T: list({uint8, int8, uint16, int16, int32, int64, uint32, uint64, half, bfloat16, float, "
    "double, bool, complex64, complex128}) >= 1";

// TensorFlow's attributes have no double: a scale travels as the bits of one.
constexpr const char* kAttributes[] = {
    "tensor_name: string = ''",
    "reduce_op: int = 1",
    "prescale_bits: int = 0",
    "postscale_bits: int = 0",
    "process_set: int = 0",
    "root: int = 0",
    "wire: int = 0",
    "priority: int = 0",
};

std::string define(TF_OpDefinitionBuilder* builder) {
  // Stateful, or TensorFlow would fold, merge and drop what other ranks wait for. (The setter
  // ignores its second argument.)
  tf().TF_OpDefinitionBuilderSetIsStateful(builder, true);
  OwnedStatus status;
  tf().TF_RegisterOpDefinition(builder, status.get());  // takes the builder
  return status.ok() ? "" : tf().TF_Message(status.get());
}

std::string define_collective(const Operation& operation) {
  TF_OpDefinitionBuilder* const builder = tf().TF_NewOpDefinitionBuilder(operation.op);
  tf().TF_OpDefinitionBuilderAddInput(builder, "tensors: T");
  if (operation.takes_splits) tf().TF_OpDefinitionBuilderAddInput(builder, "splits: int64");
  tf().TF_OpDefinitionBuilderAddOutput(builder, "outputs: T");
  if (operation.rows == Rows::kCounted) {
    tf().TF_OpDefinitionBuilderAddOutput(builder, "rows: int64");
  }
  tf().TF_OpDefinitionBuilderAddAttr(builder, kTypeAttribute);
  for (const char* attribute : kAttributes) tf().TF_OpDefinitionBuilderAddAttr(builder, attribute);
  tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, output_shapes_of(operation));
  return define(builder);
}

std::string define_query() {
  TF_OpDefinitionBuilder* const builder = tf().TF_NewOpDefinitionBuilder("HvdQuery");
  tf().TF_OpDefinitionBuilderAddOutput(builder, "answer: int32");
  tf().TF_OpDefinitionBuilderAddAttr(builder, "what: int");
  tf().TF_OpDefinitionBuilderAddAttr(builder, "process_set: int = 0");
  tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, scalar_shape);
  return define(builder);
}

}  // namespace

std::span<const Operation> operations() { return kOperations; }

std::string define_operations() {
  for (const Operation& operation : kOperations) {
    std::string problem = define_collective(operation);
    if (!problem.empty()) return problem;
  }
  return define_query();
}

}  // namespace hvd::tensorflow
