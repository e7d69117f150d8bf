// SPDX-License-Identifier: Apache-2.0
// A rank that runs the table of operation, type and size on GPU memory: gpu_table_rank BACKEND
// [SIZES]: so many sizes, the least ones; all if not given.
// Among all ranks, and among those of two process sets that overlap. HVD_SHARE_GPU=1: all ranks on
// one GPU. Prints FINE at the end; exit code 77 where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/rank_gpu.h"
#include "hvd/hvd.hpp"
#include "hvd/process_set.hpp"
#include "process/operation_table.h"

namespace {

using hvd_test::RankGpu;
using hvd_test::TableScope;

class Memory final : public hvd_test::TableMemory {
 public:
  explicit Memory(RankGpu& gpu) : gpu_(gpu) {}
  void* allocate(std::size_t bytes) override { return gpu_.allocate(bytes); }
  void free(void* memory) override { gpu_.free(memory); }
  void put(void* device, const void* host, std::size_t bytes) override {
    gpu_.put(device, host, bytes);
  }
  void get(void* host, const void* device, std::size_t bytes) override {
    gpu_.get(host, device, bytes);
  }
  void name_place(hvd_request& request) const override {
    const hvd::GpuStream place = gpu_.place();
    request.device_kind = place.device.kind;
    request.device_index = place.device.index;
    request.stream = place.stream;
  }

 private:
  RankGpu& gpu_;
};

std::string wrong_in(const hvd::ProcessSet& set, std::span<const std::size_t> sizes,
                     Memory& memory) {
  const TableScope scope{
      .process_set = set.id(), .ranks = set.ranks(), .me = hvd_rank(), .memory = &memory};
  std::string wrong;
  for (const std::size_t bytes : sizes) {
    if (wrong.empty() && set.has_me()) wrong = hvd_test::wrong_operations(scope, bytes);
  }
  return wrong;
}

/// A set of the first and the last rank, and one of all but the first.
std::string wrong_in_sets(Memory& memory) {
  if (hvd_size() < 3) return {};
  std::vector<std::int32_t> rest(static_cast<std::size_t>(hvd_size() - 1));
  std::iota(rest.begin(), rest.end(), 1);
  const std::vector<std::int32_t> ends = {0, hvd_size() - 1};
  const hvd::ProcessSet sets[] = {hvd::ProcessSet::add(ends), hvd::ProcessSet::add(rest)};
  std::string wrong;
  for (const hvd::ProcessSet& set : sets) {
    // One size in both sets at once would let their kernels meet on a shared GPU; see gpu-plane.md.
    if (wrong.empty()) wrong = wrong_in(set, hvd_test::table_sizes().first(3), memory);
    hvd::barrier();
  }
  for (const hvd::ProcessSet& set : sets) set.remove(60);
  return wrong;
}

std::string wrong_plane(const hvd::Context& job, const std::string& backend) {
  const std::string text = job.describe();
  if (text.find("GPU allreduce moves by " + backend) != std::string::npos) return {};
  return "another plane than " + backend + ": " + text;
}

int run(const hvd::Context& job, RankGpu& gpu, const std::string& backend,
        std::span<const std::size_t> sizes) {
  Memory memory(gpu);
  std::string wrong = wrong_in(hvd::ProcessSet(), sizes, memory);
  if (wrong.empty()) wrong = wrong_in_sets(memory);
  if (wrong.empty()) wrong = wrong_plane(job, backend);
  std::printf("%s\n", wrong.empty() ? "FINE" : wrong.c_str());
  if (wrong.empty()) hvd::barrier();
  return wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return hvd_test::run_on_gpu([&](const hvd::Context& job, RankGpu& gpu) {
    auto sizes = hvd_test::table_sizes();
    if (argc > 2) sizes = sizes.first(std::min(sizes.size(), std::size_t{std::stoul(argv[2])}));
    return run(job, gpu, argv[1], sizes);
  });
}
