// SPDX-License-Identifier: Apache-2.0
// Our side of the comparison, through the C interface: named, negotiated, with the default
// settings.
//   allreduce_bench SHAPES    the plans of fresh_bench.h
//   allreduce_bench idle      share of a core that an initialised, idle rank takes
//   allreduce_bench start     seconds from main() to the end of the first allreduce
#include <hvd/hvd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fresh_bench.h"

namespace {

void require(hvd_status status) {
  if (status == HVD_OK) return;
  std::fprintf(stderr, "allreduce_bench: %s: %s\n", hvd_status_name(status), hvd_last_error());
  std::exit(1);
}

class HvdPeer {
 public:
  int rank() const { return hvd_rank(); }
  int size() const { return hvd_size(); }
  void barrier() { require(hvd_barrier()); }

  void allreduce(std::vector<std::vector<float>>& tensors) {
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

  void largest(std::vector<double>& values) {
    require(
        hvd_allreduce("times", values.data(), values.data(), values.size(), HVD_FLOAT64, HVD_MAX));
  }

 private:
  void submit(std::size_t index, std::vector<float>& values, bool more) {
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

  std::vector<std::string> names_;
  std::vector<hvd_handle> handles_;
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void report_idle(HvdPeer& peer) {
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
  HvdPeer peer;
  std::vector<std::vector<float>> first(1, std::vector<float>(2, 1.0F));
  peer.allreduce(first);
  std::vector<double> seconds = {1e-6 * bench::microseconds_since(start)};
  if (what == "start") {
    peer.largest(seconds);
    if (peer.rank() == 0) std::printf("first_allreduce_ms %.3f\n", 1e3 * seconds.front());
  } else if (what == "idle") {
    report_idle(peer);
  } else {
    bench::run_all(peer, what);
  }
  require(hvd_shutdown(10));
}
