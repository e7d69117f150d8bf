// SPDX-License-Identifier: Apache-2.0
// A rank whose program uses MPI itself: mpi_rank NODES beside|funneled|sets|early, prints the
// plane, then FINE or FAILED; mpi_rank NODES dies FOLDER [hidden] leaves files lost.RANK and dying
// there.
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

#include "hvd/process_set.hpp"
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

/// What is wrong with the set of a communicator of these ranks of MPI_COMM_WORLD; "": nothing.
std::string wrong_set(const hvd::ProcessSet& set, const std::vector<std::int32_t>& ranks) {
  if (set.ranks() != ranks) return "a set of other ranks than the communicator's";
  if (!set.has_me()) return {};
  std::vector<float> values(70'001, static_cast<float>(hvd_rank()));
  hvd::allreduce_async<float>("of the set", values, values, HVD_SUM, HVD_WIRE_SAME, set.id())
      .wait();
  std::int32_t sum = 0;
  for (const std::int32_t rank : ranks) sum += rank;
  for (const float value : values) {
    if (value != static_cast<float>(sum)) return "a wrong sum in the set of a communicator";
  }
  return {};
}

/// "" when the call fails on this rank with these words.
std::string accepts(const MPI_Comm& communicator, std::size_t size, const std::string& words) {
  std::int32_t id = 0;
  if (hvd_process_set_add_mpi(&communicator, size, 20, &id) == HVD_OK) return "accepted: " + words;
  const std::string text = hvd_last_error();
  return text.find(words) == std::string::npos ? text : "";
}

/// Communicators that become process sets, and some that cannot.
std::string wrong_sets() {
  const int rank = hvd_rank();
  const bool is_last = rank == hvd_size() - 1;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  const auto of_half = hvd::ProcessSet::add_mpi(half);
  std::vector<std::int32_t> ranks;
  for (int other = rank % 2; other < hvd_size(); other += 2) ranks.push_back(other);
  std::string wrong = wrong_set(of_half, ranks);
  if (of_half.id() != 1 + rank % 2) wrong += " halves are numbered wrongly";

  wrong += accepts(half, sizeof(MPI_Comm), "is there already");
  wrong += accepts(half, sizeof(MPI_Comm) + (is_last ? 1 : 0), "is none of");
  wrong += accepts(MPI_COMM_NULL, sizeof(MPI_Comm), "no rank gives an MPI communicator");
  wrong += accepts(MPI_COMM_WORLD, sizeof(MPI_Comm), "process set 0, which is there already");
  MPI_Comm all_but_last = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_last ? MPI_UNDEFINED : 0, rank, &all_but_last);
  wrong +=
      accepts(rank == 0 ? MPI_COMM_NULL : all_but_last, sizeof(MPI_Comm), "gives MPI_COMM_NULL");
  MPI_Comm between = MPI_COMM_NULL;
  // Each half is led by the highest of its ranks.
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, hvd_size() - 2 + (rank + 1) % 2, 7, &between);
  wrong += accepts(between, sizeof(MPI_Comm), "is an intercommunicator");
  std::int32_t id = 0;
  const void* const nowhere = rank == 0 ? nullptr : static_cast<const void*>(&half);
  if (hvd_process_set_add_mpi(nowhere, sizeof(MPI_Comm), 20, &id) != HVD_INVALID_ARGUMENT) {
    wrong += " accepted: null";
  }

  const auto most = hvd::ProcessSet::add_mpi(all_but_last);
  if (all_but_last != MPI_COMM_NULL) MPI_Comm_free(&all_but_last);
  MPI_Comm_free(&half);
  MPI_Comm_free(&between);
  ranks.clear();
  for (int other = 0; other + 1 < hvd_size(); ++other) ranks.push_back(other);
  wrong += wrong_set(most, ranks);
  for (const std::int32_t one : {1, 2, 3}) hvd::ProcessSet(one).remove();
  return wrong;
}

int sets() {
  const hvd::Context context;
  std::printf("%s\n", context.describe().c_str());
  const std::string wrong = wrong_sets();
  std::printf("%s\n", wrong.empty() ? "FINE" : wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

/// The program ends MPI before hvd, which it must not, and which must not hang or crash.
int early() {
  const hvd::Context context;
  std::printf("%s\n", context.describe().c_str());
  std::string wrong = hvd_test::wrong_values("");
  hvd::barrier();
  MPI_Finalize();
  std::vector<float> values(5, 1.0F);
  try {
    hvd::allreduce<float>("too late", values);
    wrong += " a sum after the end of MPI";
  } catch (const hvd::Error& failure) {
    std::printf("too late: %s\n", failure.what());
  }
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
      std::ofstream(folder + "/dying") << hvd_rank();
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
  const bool is_early = std::strcmp(argv[2], "early") == 0;
  int code = 1;
  try {
    if (is_dying) dies(argv[3]);
    if (is_early) return early();
    const bool has_sets = std::strcmp(argv[2], "sets") == 0;
    code = has_sets ? sets() : is_funneled ? funneled() : beside();
  } catch (const hvd::Error& failure) {
    std::printf("FAILED %s\n", failure.what());
    code = 9;
  }
  std::fflush(stdout);
  MPI_Finalize();
  return code;
}
