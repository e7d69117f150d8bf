// SPDX-License-Identifier: Apache-2.0
// A rank that knows nothing of MPI: plane_rank NODES. Prints the plane, and FINE at the end.
#include <cstdio>
#include <cstdlib>

#include "hvd/rows.hpp"
#include "plane_values.h"

int main(int argc, char** argv) {
  hvd_test::live_on_virtual_nodes(argc > 1 ? std::atoi(argv[1]) : 1);
  try {
    const hvd::Context context;
    std::printf("%s\n", context.describe().c_str());
    const std::string wrong = hvd_test::wrong_values("");
    std::printf("%s\n", wrong.empty() ? "FINE" : wrong.c_str());
    hvd::barrier();
    return wrong.empty() ? 0 : 1;
  } catch (const hvd::Error& failure) {
    std::printf("FAILED %s\n", failure.what());
    std::fflush(stdout);
    std::_Exit(9);
  }
}
