// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "predefined.h"

namespace hvd {
namespace {

template <typename Handle>
const char* find(void* library, const char* name, Handle& handle) {
  handle = static_cast<Handle>(::dlsym(library, name));
  return handle == nullptr ? name : nullptr;
}

}  // namespace

const char* const kAbiName = "Open MPI";

const char* find_predefined(void* library, Predefined& handles) {
  const char* missing = find(library, "ompi_mpi_comm_world", handles.world);
  if (missing == nullptr) missing = find(library, "ompi_mpi_comm_null", handles.no_communicator);
  if (missing == nullptr) missing = find(library, "ompi_mpi_byte", handles.byte);
  if (missing == nullptr) missing = find(library, "ompi_mpi_int", handles.integer);
  if (missing == nullptr) missing = find(library, "ompi_mpi_errors_return", handles.errors_return);
  if (missing == nullptr) missing = find(library, "ompi_request_null", handles.no_request);
  return missing;
}

}  // namespace hvd
