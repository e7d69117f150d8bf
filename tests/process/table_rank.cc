// SPDX-License-Identifier: Apache-2.0
// A rank that runs the table of operation, type and size: table_rank BACKEND [NODES]. Among all
// ranks, and among those of two process sets that overlap. NODES: it was started by an mpirun, on
// so many virtual nodes. Prints FINE at the end.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "element.h"
#include "hvd/hvd.hpp"
#include "hvd/process_set.hpp"
#include "operation_table.h"
#include "plane_values.h"

namespace {

using hvd_test::TableScope;

TableScope scope_of(const hvd::ProcessSet& set) {
  return {.process_set = set.id(), .ranks = set.ranks(), .me = hvd_rank()};
}

/// A set of the first and the last rank, and one of all but the first: where there are several
/// nodes, both have ranks on several.
std::string wrong_in_sets() {
  if (hvd_size() < 3) return {};
  std::vector<std::int32_t> rest(static_cast<std::size_t>(hvd_size() - 1));
  std::iota(rest.begin(), rest.end(), 1);
  const std::vector<std::int32_t> ends = {0, hvd_size() - 1};
  const hvd::ProcessSet sets[] = {hvd::ProcessSet::add(ends), hvd::ProcessSet::add(rest)};
  std::string wrong;
  for (const std::size_t bytes : hvd_test::table_sizes().first(4)) {
    for (const hvd::ProcessSet& set : sets) {
      if (wrong.empty() && set.has_me()) {
        wrong = hvd_test::wrong_operations(scope_of(set), bytes);
      }
    }
  }
  for (const hvd::ProcessSet& set : sets) set.remove(20);
  return wrong;
}

std::string wrong_plane(const hvd::Context& job, const std::string& backend) {
  const std::string text = job.describe();
  if (text.find("moves by " + backend) != std::string::npos) return {};
  return "another plane than " + backend + ": " + text;
}

int run(const std::string& backend) {
  const hvd::Context job;
  std::string wrong = wrong_plane(job, backend);
  for (const std::size_t bytes : hvd_test::table_sizes()) {
    if (wrong.empty()) wrong = hvd_test::wrong_operations(scope_of(hvd::ProcessSet()), bytes);
  }
  if (wrong.empty()) wrong = wrong_in_sets();
  std::printf("%s\n", wrong.empty() ? "FINE" : wrong.c_str());
  if (wrong.empty()) hvd::barrier();
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) hvd_test::live_on_virtual_nodes(std::atoi(argv[2]));
  try {
    return run(argv[1]);
  } catch (const hvd::Error& failure) {
    std::printf("FAILED %s\n", failure.what());
    std::fflush(stdout);
    std::_Exit(9);
  }
}
