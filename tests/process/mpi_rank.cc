// SPDX-License-Identifier: Apache-2.0
// A rank whose program uses MPI itself: mpi_rank NODES beside|funneled, prints the plane, then FINE
// or FAILED; mpi_rank NODES dies FOLDER [hidden] leaves a file lost.RANK there.
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "hvd/rows.hpp"
#include "plane_values.h"

namespace {

/// Calls that hvd's plane makes: it finds these before the library's own.
std::atomic<long> calls{0};

}  // namespace

extern "C" {
// The interface for profilers: each MPI function is also there as PMPI_.
int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                 MPI_Status statuses[]) {
  ++calls;
  return PMPI_Testsome(count, requests, done, indices, statuses);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++calls;
  return PMPI_Isend(data, count, type, rank, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++calls;
  return PMPI_Irecv(data, count, type, rank, tag, comm, request);
}
int MPI_Cancel(MPI_Request* request) {
  ++calls;
  return PMPI_Cancel(request);
}
int MPI_Comm_free(MPI_Comm* comm) {
  ++calls;
  return PMPI_Comm_free(comm);
}
}

namespace {

/// The program's own collectives, on a thread of their own.
bool sums_are_right(int rounds) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> values(round % 7 == 0 ? 20'000 : 3, rank + round);
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT, MPI_SUM,
                  MPI_COMM_WORLD);
    if (values.back() != size * (size - 1) / 2 + round * size) return false;
  }
  return true;
}

int beside() {
  for (const char* life : {"first", "second"}) {
    std::string wrong;
    bool right = false;
    {
      const hvd::Context context;
      std::printf("%s\n", context.describe().c_str());
      std::thread own([&] { right = sums_are_right(60); });
      wrong = hvd_test::wrong_values(life);
      own.join();
      hvd::barrier();
    }
    if (!right) wrong += " the program's own sums are wrong";
    if (!wrong.empty()) {
      std::printf("%s\n", wrong.c_str());
      return 1;
    }
  }
  const bool right = sums_are_right(3);
  std::printf("%s\n", right ? "FINE" : "the program's own sums are wrong after hvd has ended");
  return right ? 0 : 1;
}

int funneled() {
  const hvd::Context context;
  std::printf("%s\n", context.describe().c_str());
  const std::string wrong = hvd_test::wrong_values("");
  std::printf("%s\n", wrong.empty() ? "FINE" : wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

std::uint64_t batches() {
  hvd_counters counters{};
  counters.struct_size = sizeof counters;
  hvd::check(hvd_statistics(&counters));
  return counters.batches;
}

/// Goes on in a child that the launcher does not know: it ends every rank as soon as one has died,
/// and some are faster than any error.
void hide_from_launcher() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    return;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void leave_word(const std::string& folder, const std::string& text) {
  const std::string path = folder + "/lost." + std::to_string(hvd_test::launched_rank());
  std::ofstream(path + ".new") << text;
  std::rename((path + ".new").c_str(), path.c_str());
}

/// The last rank dies while MPI moves a sum; ends the process.
void dies(const std::string& folder) {
  hvd_init(nullptr);
  std::vector<float> values(16 << 20, 1.0F);
  hvd::allreduce<float>("first", values);
  const auto before = batches();
  const auto begin = std::chrono::steady_clock::now();
  try {
    auto pending = hvd::allreduce_async<float>("last", values, values);
    if (hvd_rank() == hvd_size() - 1) {
      while (batches() == before) {
      }
      ::kill(::getpid(), SIGKILL);
    }
    pending.wait();
    hvd::allreduce<float>("never", values);
    leave_word(folder, "nothing was lost");
  } catch (const hvd::Error& lost) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const long until_then = calls;
    hvd_shutdown(5);
    leave_word(folder, "LOST after " + std::to_string(seconds.count()) + " s, then " +
                           std::to_string(calls - until_then) + " calls: " + lost.what());
  }
  std::_Exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool is_dying = std::strcmp(argv[2], "dies") == 0;
  if (is_dying && argc < 4) return 2;
  if (is_dying && argc > 4) hide_from_launcher();
  hvd_test::live_on_virtual_nodes(std::atoi(argv[1]));
  const bool is_funneled = std::strcmp(argv[2], "funneled") == 0;
  int level = 0;
  MPI_Init_thread(&argc, &argv, is_funneled ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
  int code = 1;
  try {
    if (is_dying) dies(argv[3]);
    code = is_funneled ? funneled() : beside();
  } catch (const hvd::Error& failure) {
    std::printf("FAILED %s\n", failure.what());
    code = 9;
  }
  std::fflush(stdout);
  MPI_Finalize();
  return code;
}
