// SPDX-License-Identifier: Apache-2.0
// The Gloo side of the comparison: gloo_peer RANK SIZE FOLDER SUITE..., ranks meet through files
// in FOLDER. A reducescatter in the form of the others is not in Gloo's interface.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
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
  using Buffer = std::vector<float>;

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
  void allreduce(std::vector<Buffer>& tensors) {
    for (auto& tensor : tensors) reduce(tensor, &gloo::sum<float>);
  }
  void broadcast(std::vector<float>& data) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(data.data(), data.size());
    options.setRoot(0);
    gloo::broadcast(options);
  }
  void allgather(const std::vector<float>& in, std::vector<float>& out) {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<float*>(in.data()), in.size());
    options.setOutput(out.data(), out.size());
    gloo::allgather(options);
  }
  void alltoall(const std::vector<float>& in, std::vector<float>& out) {
    gloo::AlltoallOptions options(context_);
    options.setInput(const_cast<float*>(in.data()), in.size());
    options.setOutput(out.data(), out.size());
    gloo::alltoall(options);
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
  if (argc < 5) {
    std::fprintf(stderr, "usage: gloo_peer RANK SIZE FOLDER SUITE...\n");
    return 2;
  }
  GlooPeer peer(std::stoi(argv[1]), std::stoi(argv[2]), argv[3]);
  bench::run_suites(peer, argv + 4, argv + argc);
}
