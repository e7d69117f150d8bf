// SPDX-License-Identifier: Apache-2.0
// Our side of the comparison, through the C interface: named, negotiated, with the default
// settings.
//   hvd_peer SUITE...   see run_suite() in fresh_bench.h
//   hvd_peer shared SUITE...   the same with the tensors of allreduces in memory of hvd_alloc()
//   hvd_peer library SUITE...  the same with results in fresh memory of the library where they can
//   be hvd_peer idle       share of a core that an initialised, idle rank takes hvd_peer start
//   seconds from main() to the end of the first allreduce, and memory after it
#include <hvd/hvd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <hvd/memory.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fresh_bench.h"

namespace {

void require(hvd_status status) {
  if (status == HVD_OK) return;
  std::fprintf(stderr, "hvd_peer: %s: %s\n", hvd_status_name(status), hvd_last_error());
  std::exit(1);
}

template <typename Floats>
class HvdPeer {
 public:
  using Buffer = Floats;

  /// `library_memory`: operations whose results can lie in memory of the library leave them there.
  explicit HvdPeer(bool library_memory = false) : library_memory_(library_memory) {}

  int rank() const { return hvd_rank(); }
  int size() const { return hvd_size(); }
  void barrier() { require(hvd_barrier()); }

  void allreduce(std::vector<Buffer>& tensors) {
    if (tensors.size() == 1) {
      auto& only = tensors.front();
      require(hvd_allreduce("one", only.data(), only.data(), only.size(), HVD_FLOAT32, HVD_SUM));
      return;
    }
    handles_.resize(tensors.size());
    while (names_.size() < tensors.size())
      names_.push_back("gradient." + std::to_string(names_.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) submit(i, tensors[i], i + 1 < tensors.size());
    for (const hvd_handle handle : handles_) {
      require(hvd_wait(handle, -1));
      require(hvd_release(handle));
    }
  }

  void broadcast(std::vector<float>& data) {
    require(hvd_broadcast("broadcast", data.data(), data.size(), HVD_FLOAT32, 0));
  }
  void allgather(const std::vector<float>& in, std::vector<float>& out) {
    move("allgather", HVD_ALLGATHER, in, out);
  }
  void alltoall(const std::vector<float>& in, std::vector<float>& out) {
    move("alltoall", HVD_ALLTOALL, in, out);
  }
  void reducescatter(const std::vector<float>& in, std::vector<float>& out) {
    move("reducescatter", HVD_REDUCESCATTER, in, out);
  }

  void largest(std::vector<double>& values) {
    require(
        hvd_allreduce("times", values.data(), values.data(), values.size(), HVD_FLOAT64, HVD_MAX));
  }

 private:
  void submit(std::size_t index, Buffer& values, bool more) {
    const std::int64_t shape = static_cast<std::int64_t>(values.size());
    hvd_tensor tensor = {};
    tensor.input = values.data();
    tensor.output = values.data();
    tensor.dtype = HVD_FLOAT32;
    tensor.dimensions = 1;
    tensor.shape = &shape;
    hvd_request request = HVD_REQUEST_INITIALIZER;
    request.name = names_[index].c_str();
    request.tensor_count = 1;
    request.tensors = &tensor;
    request.flags = more ? HVD_SUBMIT_MORE : 0;
    require(hvd_submit(&request, &handles_[index]));
  }

  /// An operation whose result goes to `out`; where the library gives the memory instead, only its
  /// ends are looked at.
  void move(const char* name, hvd_kind kind, const std::vector<float>& in,
            std::vector<float>& out) {
    const std::int64_t shape = static_cast<std::int64_t>(in.size());
    hvd_tensor tensor = {};
    tensor.input = in.data();
    tensor.output = out.data();
    if (kind != HVD_REDUCESCATTER) tensor.output_bytes = out.size() * sizeof(float);
    tensor.dtype = HVD_FLOAT32;
    tensor.dimensions = 1;
    tensor.shape = &shape;
    if (library_memory_) tensor.output = nullptr, tensor.output_bytes = 0;
    hvd_request request = HVD_REQUEST_INITIALIZER;
    request.name = name;
    request.kind = kind;
    request.tensor_count = 1;
    request.tensors = &tensor;
    hvd_handle handle = 0;
    require(hvd_run(&request, -1, &handle));
    if (library_memory_) {
      hvd_gather result = {};
      require(hvd_gathered(handle, 0, &result));
      const auto* values = static_cast<const float*>(result.data);
      out.front() = values[0];
      out.back() = values[out.size() - 1];
    }
    require(hvd_release(handle));
  }

  bool library_memory_;
  std::vector<std::string> names_;
  std::vector<hvd_handle> handles_;
};

using PrivatePeer = HvdPeer<std::vector<float>>;
using SharedPeer = HvdPeer<std::vector<float, hvd::SharedAllocator<float>>>;

/// Megabytes of memory of this process, shared pages counted by its part in them.
double proportional_megabytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  double kilobytes = 0;
  while (file >> word) {
    if (word != "Pss:") continue;
    file >> kilobytes;
    break;
  }
  return kilobytes / 1000;
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void report_idle(PrivatePeer& peer) {
  constexpr unsigned kSeconds = 3;
  peer.barrier();
  const double before = cpu_seconds();
  sleep(kSeconds);  // what is measured: nothing to do for this long
  std::vector<double> share = {100.0 * (cpu_seconds() - before) / kSeconds};
  peer.largest(share);
  if (peer.rank() == 0) std::printf("idle_percent %.3f\n", share.front());
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = std::chrono::steady_clock::now();
  const std::string what = argc > 1 ? argv[1] : "";
  require(hvd_init(nullptr));
  PrivatePeer peer;
  std::vector<std::vector<float>> first(1, std::vector<float>(2, 1.0F));
  peer.allreduce(first);
  std::vector<double> started = {1e-3 * bench::microseconds_since(start), proportional_megabytes()};
  if (what == "start") {
    peer.largest(started);
    if (peer.rank() == 0) {
      std::printf("first_allreduce_ms %.3f\nmemory_mb %.3f\n", started[0], started[1]);
    }
  } else if (what == "idle") {
    report_idle(peer);
  } else if (what == "shared") {
    SharedPeer shared;
    bench::run_suites(shared, argv + 2, argv + argc);
  } else if (what == "library") {
    PrivatePeer library(true);
    bench::run_suites(library, argv + 2, argv + argc);
  } else {
    bench::run_suites(peer, argv + 1, argv + argc);
  }
  require(hvd_shutdown(10));
}
