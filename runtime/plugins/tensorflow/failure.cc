// SPDX-License-Identifier: Apache-2.0
#include "plugins/tensorflow/failure.h"

namespace hvd::tensorflow {

namespace {

struct Named {
  const char* name;  ///< As hvd.h has it, without HVD_.
  TfCode code;       ///< As Horovod has it where it had one.
};

Named named(hvd_status status) {
  switch (status) {
    case HVD_INVALID_ARGUMENT:
      return {"INVALID_ARGUMENT", TfCode::kInvalidArgument};
    case HVD_MISMATCH:
      return {"MISMATCH", TfCode::kFailedPrecondition};
    case HVD_UNSUPPORTED:
      return {"UNSUPPORTED", TfCode::kUnimplemented};
    case HVD_TIMEOUT:
      return {"TIMEOUT", TfCode::kInternal};
    case HVD_PEER_LOST:
      return {"PEER_LOST", TfCode::kInternal};
    case HVD_SYSTEM:
      return {"SYSTEM", TfCode::kInternal};
    case HVD_ABORTED:
      return {"ABORTED", TfCode::kUnknown};
    case HVD_OK:
    case HVD_INTERNAL:
      break;
  }
  return {"INTERNAL", TfCode::kInternal};
}

}  // namespace

void set_failure(TF_Status* status, hvd_status cause, const std::string& text) {
  const Named shown = named(cause);
  const std::string message = std::string("HvdError status=") + shown.name + ": " + text;
  tf().TF_SetStatus(status, static_cast<int>(shown.code), message.c_str());
  tf().TF_SetPayload(status, "type.hvd/status", shown.name);
}

}  // namespace hvd::tensorflow
