// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_library.h"

namespace hvd {
namespace {

constexpr const char* kLoadsNone =
    "this hvdrun is static and loads no libraries; type `hvdrun check --build` with one that is "
    "not";

}  // namespace

RuntimeFound check_runtime(const std::string& /*named*/) {
  return {{"libhvd", false, kLoadsNone}, {}};
}

CheckedGroup check_machine() { return {"machine", {{"libraries", false, kLoadsNone}}}; }

}  // namespace hvd
