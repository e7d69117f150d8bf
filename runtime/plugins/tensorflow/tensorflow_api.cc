// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/tensorflow_api.h"

#include <dlfcn.h>

#include <string>

namespace hvd::tensorflow {

namespace {

// The soname of every TensorFlow 2. Its wheels load it RTLD_LOCAL, so it must be named.
constexpr const char* kFramework = "libtensorflow_framework.so.2";

/// Filled while the plugin is loaded, read-only from then on.
struct Loaded {
  TensorflowApi api{};
  std::string problem;
};

Loaded& loaded() {
  static auto* const kept = new Loaded;  // kernels may run while the process ends
  return *kept;
}

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr && loaded().problem.empty()) {
    loaded().problem = std::string("this TensorFlow has no ") + name +
                       "; hvd.tensorflow needs TensorFlow 2.16 or newer";
  }
}

}  // namespace

const char* load_tensorflow_api() {
  Loaded& result = loaded();
  // It is in the process already, so that its reference is never given back.
  void* const library = dlopen(kFramework, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    result.problem = std::string(kFramework) + " is not in this process; import tensorflow first";
    return result.problem.c_str();
  }
  TensorflowApi& api = result.api;
#define HVD_LOOK_UP(name) look_up(library, #name, api.name)
  HVD_LOOK_UP(TF_NewStatus);
  HVD_LOOK_UP(TF_DeleteStatus);
  HVD_LOOK_UP(TF_SetStatus);
  HVD_LOOK_UP(TF_SetPayload);
  HVD_LOOK_UP(TF_GetCode);
  HVD_LOOK_UP(TF_Message);
  HVD_LOOK_UP(TF_NewOpDefinitionBuilder);
  HVD_LOOK_UP(TF_OpDefinitionBuilderAddInput);
  HVD_LOOK_UP(TF_OpDefinitionBuilderAddOutput);
  HVD_LOOK_UP(TF_OpDefinitionBuilderAddAttr);
  HVD_LOOK_UP(TF_OpDefinitionBuilderSetIsStateful);
  HVD_LOOK_UP(TF_OpDefinitionBuilderSetShapeInferenceFunction);
  HVD_LOOK_UP(TF_RegisterOpDefinition);
  HVD_LOOK_UP(TF_NewShapeHandle);
  HVD_LOOK_UP(TF_DeleteShapeHandle);
  HVD_LOOK_UP(TF_ShapeInferenceContextNumInputs);
  HVD_LOOK_UP(TF_ShapeInferenceContextGetInput);
  HVD_LOOK_UP(TF_ShapeInferenceContextSetOutput);
  HVD_LOOK_UP(TF_ShapeInferenceContextScalar);
  HVD_LOOK_UP(TF_ShapeInferenceContextVectorFromSize);
  HVD_LOOK_UP(TF_ShapeInferenceContextRank);
  HVD_LOOK_UP(TF_ShapeInferenceContextRankKnown);
  HVD_LOOK_UP(TF_ShapeInferenceContextSubshape);
  HVD_LOOK_UP(TF_ShapeInferenceContextConcatenateShapes);
  HVD_LOOK_UP(TF_ShapeInferenceContextSetUnknownShape);
  HVD_LOOK_UP(TF_NewKernelBuilder);
  HVD_LOOK_UP(TF_NewAsyncKernelBuilder);
  HVD_LOOK_UP(TF_RegisterKernelBuilder);
  HVD_LOOK_UP(TF_OpKernelConstruction_GetAttrSize);
  HVD_LOOK_UP(TF_OpKernelConstruction_GetAttrString);
  HVD_LOOK_UP(TF_OpKernelConstruction_GetAttrInt64);
  HVD_LOOK_UP(TF_OpKernelConstruction_Failure);
  HVD_LOOK_UP(TF_NumInputs);
  HVD_LOOK_UP(TF_GetInput);
  HVD_LOOK_UP(TF_AllocateOutput);
  HVD_LOOK_UP(TF_ForwardInputOrAllocateOutput);
  HVD_LOOK_UP(TF_OpKernelContext_Failure);
  HVD_LOOK_UP(TF_RunAsyncOpKernelDoneCallback);
  HVD_LOOK_UP(TF_TensorType);
  HVD_LOOK_UP(TF_NumDims);
  HVD_LOOK_UP(TF_Dim);
  HVD_LOOK_UP(TF_TensorByteSize);
  HVD_LOOK_UP(TF_TensorData);
  HVD_LOOK_UP(TF_DeleteTensor);
#undef HVD_LOOK_UP
  return result.problem.c_str();
}

const TensorflowApi& tf() {
  static const TensorflowApi& api = loaded().api;
  return api;
}

}  // namespace hvd::tensorflow
