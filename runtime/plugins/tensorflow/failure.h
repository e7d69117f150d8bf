// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "hvd/hvd.h"
#include "plugins/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

inline bool is_ok(const TF_Status* status) {
  return tf().TF_GetCode(status) == static_cast<int>(TfCode::kOk);
}

/// A TF_Status with an end.
class OwnedStatus {
 public:
  OwnedStatus() : status_(tf().TF_NewStatus()) {}
  ~OwnedStatus() { tf().TF_DeleteStatus(status_); }
  OwnedStatus(const OwnedStatus&) = delete;
  OwnedStatus& operator=(const OwnedStatus&) = delete;

  TF_Status* get() const { return status_; }
  bool ok() const { return is_ok(status_); }

 private:
  TF_Status* status_;
};

/// Fills `status` with what Python translates back (hvd/tensorflow/errors.py): the text "HvdError
/// status=NAME: ..." and the payload "type.hvd/status" = NAME.
void set_failure(TF_Status* status, hvd_status cause, const std::string& text);

}  // namespace hvd::tensorflow
