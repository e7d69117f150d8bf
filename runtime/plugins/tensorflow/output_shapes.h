// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugins/tensorflow/operations.h"
#include "plugins/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

using OutputShapes = void (*)(TF_ShapeInferenceContext*, TF_Status*);

/// What a graph can know of the shapes of an op's results before it runs.
OutputShapes output_shapes_of(const Operation& operation);

/// For ops with one scalar.
void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace hvd::tensorflow
