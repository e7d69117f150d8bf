// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/output_shapes.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "plugins/tensorflow/failure.h"

namespace hvd::tensorflow {

namespace {

/// A TF_ShapeHandle with an end.
class OwnedShape {
 public:
  explicit OwnedShape(TF_ShapeHandle* shape = tf().TF_NewShapeHandle()) : shape_(shape) {}
  ~OwnedShape() { tf().TF_DeleteShapeHandle(shape_); }
  OwnedShape(const OwnedShape&) = delete;
  OwnedShape& operator=(const OwnedShape&) = delete;

  TF_ShapeHandle* get() const { return shape_; }

 private:
  TF_ShapeHandle* shape_;
};

void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto inputs = static_cast<int>(tf().TF_ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < inputs && is_ok(status); ++i) {
    OwnedShape shape;
    tf().TF_ShapeInferenceContextGetInput(context, i, shape.get(), status);
    if (is_ok(status)) tf().TF_ShapeInferenceContextSetOutput(context, i, shape.get(), status);
  }
}

/// (rows, columns...) -> (?, columns...). False where the columns are not known.
bool set_any_rows(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  OwnedShape shape;
  tf().TF_ShapeInferenceContextGetInput(context, index, shape.get(), status);
  if (!is_ok(status) || tf().TF_ShapeInferenceContextRankKnown(context, shape.get()) == 0)
    return false;
  const std::int64_t rank = tf().TF_ShapeInferenceContextRank(context, shape.get());
  if (rank == 0) return false;  // one row, or an error of the kernel
  // The interface has no name for an unknown number of rows; -1 means it.
  const OwnedShape rows(tf().TF_ShapeInferenceContextVectorFromSize(
      context, std::numeric_limits<std::size_t>::max()));
  OwnedShape columns;
  OwnedShape result;
  tf().TF_ShapeInferenceContextSubshape(context, shape.get(), 1, rank, columns.get(), status);
  if (!is_ok(status)) return false;
  tf().TF_ShapeInferenceContextConcatenateShapes(context, rows.get(), columns.get(), result.get(),
                                                 status);
  if (is_ok(status)) tf().TF_ShapeInferenceContextSetOutput(context, index, result.get(), status);
  return is_ok(status);
}

void any_rows(TF_ShapeInferenceContext* context, TF_Status* status, int inputs_without_rows) {
  tf().TF_ShapeInferenceContextSetUnknownShape(context, status);  // of every output
  const auto inputs = static_cast<int>(tf().TF_ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < inputs - inputs_without_rows && is_ok(status); ++i) {
    set_any_rows(context, i, status);
  }
}

void counted_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  any_rows(context, status, 0);
}

void counted_rows_with_splits(TF_ShapeInferenceContext* context, TF_Status* status) {
  any_rows(context, status, 1);
}

}  // namespace

OutputShapes output_shapes_of(const Operation& operation) {
  if (operation.rows == Rows::kSame) return same_shapes;
  return operation.takes_splits ? counted_rows_with_splits : counted_rows;
}

void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  const OwnedShape shape(tf().TF_ShapeInferenceContextScalar(context));
  tf().TF_ShapeInferenceContextSetOutput(context, 0, shape.get(), status);
}

}  // namespace hvd::tensorflow
