// SPDX-License-Identifier: Apache-2.0
// The MPI side of the comparison: compiled once with Open MPI and once with MPICH.
//   mpi_peer SUITE...   see run_suite() in fresh_bench.h
#include <mpi.h>

#include <vector>

#include "fresh_bench.h"

namespace {

class MpiPeer {
 public:
  using Buffer = std::vector<float>;

  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce(std::vector<Buffer>& tensors) {
    for (auto& tensor : tensors)
      MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
  }
  void broadcast(Buffer& data) {
    MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void allgather(const Buffer& in, Buffer& out) {
    MPI_Allgather(in.data(), static_cast<int>(in.size()), MPI_FLOAT, out.data(),
                  static_cast<int>(in.size()), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void alltoall(const Buffer& in, Buffer& out) {
    const int part = static_cast<int>(in.size()) / size_;
    MPI_Alltoall(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
  }
  void reducescatter(const Buffer& in, Buffer& out) {
    MPI_Reduce_scatter_block(in.data(), out.data(), static_cast<int>(out.size()), MPI_FLOAT,
                             MPI_SUM, MPI_COMM_WORLD);
  }
  void largest(std::vector<double>& values) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    MpiPeer peer;
    bench::run_suites(peer, argv + 1, argv + argc);
  }
  MPI_Finalize();
}
