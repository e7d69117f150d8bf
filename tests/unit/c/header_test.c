/* SPDX-License-Identifier: Apache-2.0 */
/* hvd.h must be plain C11: this file only has to compile. */
#include "hvd/hvd.h"

_Static_assert(HVD_BFLOAT16 == 10, "numbers never change");
_Static_assert(sizeof(hvd_handle) == 8, "a handle is 64 bits");
_Static_assert(sizeof(hvd_status) == sizeof(int), "ctypes declares statuses as int");

int hvd_header_compiles_as_c(void) {
  const hvd_request request = HVD_REQUEST_INITIALIZER;
  return request.prescale == 1.0 && request.struct_size == sizeof request;
}
