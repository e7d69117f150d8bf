// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>

namespace hvd {

/// Why the last dlopen() or dlsym() of this thread failed.
inline std::string dl_text() {
  const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it by thread
  return text == nullptr ? "no reason given" : text;
}

}  // namespace hvd
