// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// TensorFlow's C interface, as far as the plugin needs it, declared by hand from
// https://www.tensorflow.org/install/lang_c and tensorflow/c/{kernels,ops,tf_status,tf_tensor}.h.
// What stands here is the same in TensorFlow 2.13 to 2.21.
extern "C" {
struct TF_AsyncOpKernelDoneCallback;
struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;
struct TF_Status;
struct TF_Tensor;
}

namespace hvd::tensorflow {

/// Functions of the TensorFlow that is in this process. They are looked up, never linked: one
/// plugin serves every version, and nothing is undefined where there is no TensorFlow.
/// Immutable after construction.
struct TensorflowApi {
  TF_Status* (*TF_NewStatus)();
  void (*TF_DeleteStatus)(TF_Status*);
  void (*TF_SetStatus)(TF_Status*, int code, const char* message);
  void (*TF_SetPayload)(TF_Status*, const char* key, const char* value);
  int (*TF_GetCode)(const TF_Status*);
  const char* (*TF_Message)(const TF_Status*);

  TF_OpDefinitionBuilder* (*TF_NewOpDefinitionBuilder)(const char* name);
  void (*TF_OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder*, const char* input);
  void (*TF_OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder*, const char* output);
  void (*TF_OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder*, const char* attribute);
  void (*TF_OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder*, bool);
  void (*TF_OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder*,
                                                          void (*infer)(TF_ShapeInferenceContext*,
                                                                        TF_Status*));
  void (*TF_RegisterOpDefinition)(TF_OpDefinitionBuilder*, TF_Status*);

  TF_ShapeHandle* (*TF_NewShapeHandle)();
  void (*TF_DeleteShapeHandle)(TF_ShapeHandle*);
  std::int64_t (*TF_ShapeInferenceContextNumInputs)(TF_ShapeInferenceContext*);
  void (*TF_ShapeInferenceContextGetInput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*,
                                           TF_Status*);
  void (*TF_ShapeInferenceContextSetOutput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*,
                                            TF_Status*);
  TF_ShapeHandle* (*TF_ShapeInferenceContextScalar)(TF_ShapeInferenceContext*);
  TF_ShapeHandle* (*TF_ShapeInferenceContextVectorFromSize)(TF_ShapeInferenceContext*,
                                                            std::size_t size);
  std::int64_t (*TF_ShapeInferenceContextRank)(TF_ShapeInferenceContext*, TF_ShapeHandle*);
  int (*TF_ShapeInferenceContextRankKnown)(TF_ShapeInferenceContext*, TF_ShapeHandle*);
  void (*TF_ShapeInferenceContextSubshape)(TF_ShapeInferenceContext*, TF_ShapeHandle* shape,
                                           std::int64_t start, std::int64_t end,
                                           TF_ShapeHandle* result, TF_Status*);
  void (*TF_ShapeInferenceContextConcatenateShapes)(TF_ShapeInferenceContext*,
                                                    TF_ShapeHandle* first, TF_ShapeHandle* second,
                                                    TF_ShapeHandle* result, TF_Status*);
  void (*TF_ShapeInferenceContextSetUnknownShape)(TF_ShapeInferenceContext*, TF_Status*);

  TF_KernelBuilder* (*TF_NewKernelBuilder)(const char* op, const char* device,
                                           void* (*create)(TF_OpKernelConstruction*),
                                           void (*compute)(void*, TF_OpKernelContext*),
                                           void (*destroy)(void*));
  TF_KernelBuilder* (*TF_NewAsyncKernelBuilder)(const char* op, const char* device,
                                                void* (*create)(TF_OpKernelConstruction*),
                                                void (*compute)(void*, TF_OpKernelContext*,
                                                                TF_AsyncOpKernelDoneCallback*),
                                                void (*destroy)(void*));
  void (*TF_RegisterKernelBuilder)(const char* name, TF_KernelBuilder*, TF_Status*);
  void (*TF_OpKernelConstruction_GetAttrSize)(TF_OpKernelConstruction*, const char* name,
                                              std::int32_t* list_size, std::int32_t* total_size,
                                              TF_Status*);
  void (*TF_OpKernelConstruction_GetAttrString)(TF_OpKernelConstruction*, const char* name,
                                                char* value, std::size_t most, TF_Status*);
  void (*TF_OpKernelConstruction_GetAttrInt64)(TF_OpKernelConstruction*, const char* name,
                                               std::int64_t* value, TF_Status*);
  void (*TF_OpKernelConstruction_Failure)(TF_OpKernelConstruction*, TF_Status*);

  int (*TF_NumInputs)(TF_OpKernelContext*);
  void (*TF_GetInput)(TF_OpKernelContext*, int index, TF_Tensor** tensor, TF_Status*);
  TF_Tensor* (*TF_AllocateOutput)(TF_OpKernelContext*, int index, int dtype,
                                  const std::int64_t* dimensions, int count, std::size_t bytes,
                                  TF_Status*);
  TF_Tensor* (*TF_ForwardInputOrAllocateOutput)(TF_OpKernelContext*, const int* inputs,
                                                int input_count, int output,
                                                const std::int64_t* dimensions, int count,
                                                int* forwarded, TF_Status*);
  void (*TF_OpKernelContext_Failure)(TF_OpKernelContext*, TF_Status*);
  void (*TF_RunAsyncOpKernelDoneCallback)(TF_AsyncOpKernelDoneCallback*);

  int (*TF_TensorType)(const TF_Tensor*);
  int (*TF_NumDims)(const TF_Tensor*);
  std::int64_t (*TF_Dim)(const TF_Tensor*, int index);
  std::size_t (*TF_TensorByteSize)(const TF_Tensor*);
  void* (*TF_TensorData)(const TF_Tensor*);
  void (*TF_DeleteTensor)(TF_Tensor*);
};

/// Codes of TF_SetStatus() (tensorflow/c/tf_status.h). UNAVAILABLE and ABORTED are left out: graphs
/// replace the first and drop its payload, and MonitoredTrainingSession takes both for preemption.
enum class TfCode : int {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
};

/// Looks the functions up; call it once, before tf(). The answer is "" or what is missing.
const char* load_tensorflow_api();

/// What load_tensorflow_api() found.
const TensorflowApi& tf();

}  // namespace hvd::tensorflow
