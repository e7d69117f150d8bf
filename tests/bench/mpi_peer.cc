// SPDX-License-Identifier: Apache-2.0
// The MPI side of the comparison: compiled once with Open MPI and once with MPICH.
#include <mpi.h>

#include <vector>

#include "fresh_bench.h"

namespace {

class MpiPeer {
 public:
  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce(std::vector<std::vector<float>>& tensors) {
    for (auto& tensor : tensors)
      MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_FLOAT,
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
    bench::run_all(peer, argc > 1 ? argv[1] : "");
  }
  MPI_Finalize();
}
