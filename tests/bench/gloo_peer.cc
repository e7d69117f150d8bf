// SPDX-License-Identifier: Apache-2.0
// The Gloo side of the comparison: gloo_peer SHAPES RANK SIZE FOLDER, ranks meet through files in
// FOLDER.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "fresh_bench.h"

namespace {

class GlooPeer {
 public:
  GlooPeer(int rank, int size, const std::string& folder) : rank_(rank), size_(size) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "localhost";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    gloo::rendezvous::FileStore store(folder);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void allreduce(std::vector<std::vector<float>>& tensors) {
    for (auto& tensor : tensors) reduce(tensor, &gloo::sum<float>);
  }
  void largest(std::vector<double>& values) { reduce(values, &gloo::max<double>); }

 private:
  template <typename T>
  void reduce(std::vector<T>& values, void (*function)(void*, const void*, const void*, size_t)) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(function);
    gloo::allreduce(options);
  }

  int rank_;
  int size_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: gloo_peer SHAPES RANK SIZE FOLDER\n");
    return 2;
  }
  GlooPeer peer(std::stoi(argv[2]), std::stoi(argv[3]), argv[4]);
  bench::run_all(peer, argv[1]);
}
