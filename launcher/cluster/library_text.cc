// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/library_text.h"

#include <dlfcn.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "launcher/cluster/slurm_soname.h"
#include "launcher/plan/open_library.h"
#include "launcher/run/capture.h"

namespace hvd {
namespace {

/// The functions of libslurm that are called, by their declarations in its header. Those that print
/// write what scontrol does: no structure of the library is read here.
struct SlurmCalls {
  decltype(&::slurm_init) init = nullptr;
  decltype(&::slurm_load_ctl_conf) load_config = nullptr;
  decltype(&::slurm_print_ctl_conf) print_config = nullptr;
  decltype(&::slurm_load_partitions) load_partitions = nullptr;
  decltype(&::slurm_print_partition_info_msg) print_partitions = nullptr;
  decltype(&::slurm_load_node) load_nodes = nullptr;
  decltype(&::slurm_populate_node_partitions) name_partitions = nullptr;
  decltype(&::slurm_print_node_info_msg) print_nodes = nullptr;
  decltype(&::slurm_load_job) load_job = nullptr;
  decltype(&::slurm_print_job_info_msg) print_job = nullptr;
  decltype(&::slurm_strerror) describe = nullptr;
};

template <typename Call>
bool find_call(void* library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(::dlsym(library, name));
  return call != nullptr;
}

/// False: a function is missing.
bool find_calls(void* library, SlurmCalls& calls) {
  return find_call(library, "slurm_init", calls.init) &&
         find_call(library, "slurm_load_ctl_conf", calls.load_config) &&
         find_call(library, "slurm_print_ctl_conf", calls.print_config) &&
         find_call(library, "slurm_load_partitions", calls.load_partitions) &&
         find_call(library, "slurm_print_partition_info_msg", calls.print_partitions) &&
         find_call(library, "slurm_load_node", calls.load_nodes) &&
         find_call(library, "slurm_populate_node_partitions", calls.name_partitions) &&
         find_call(library, "slurm_print_node_info_msg", calls.print_nodes) &&
         find_call(library, "slurm_load_job", calls.load_job) &&
         find_call(library, "slurm_print_job_info_msg", calls.print_job) &&
         find_call(library, "slurm_strerror", calls.describe);
}

/// Prints why a call failed on standard error; the exit code.
int tell_failure(const SlurmCalls& calls) {
  (void)std::fprintf(stderr, "%s\n", calls.describe(errno));
  return 1;
}

int answer_cluster(const SlurmCalls& calls, bool wants_nodes, std::FILE* out) {
  slurm_conf_t* config = nullptr;
  if (calls.load_config(0, &config) != SLURM_SUCCESS) return tell_failure(calls);
  calls.print_config(out, config);
  // Also those that are hidden: jobs may be told to use them.
  partition_info_msg_t* partitions = nullptr;
  if (calls.load_partitions(0, &partitions, SHOW_ALL) != SLURM_SUCCESS) return tell_failure(calls);
  calls.print_partitions(out, partitions, 1);
  if (!wants_nodes) return 0;
  node_info_msg_t* nodes = nullptr;
  if (calls.load_nodes(0, &nodes, SHOW_ALL) != SLURM_SUCCESS) return tell_failure(calls);
  calls.name_partitions(nodes, partitions);  // nodes come without the names of theirs
  calls.print_nodes(out, nodes, 1);
  return 0;
}

int answer_job(const SlurmCalls& calls, const std::string& job, std::FILE* out) {
  std::uint32_t id = 0;  // of an entry of an array, "12_3", that of the array
  std::from_chars(job.data(), job.data() + job.size(), id);
  job_info_msg_t* jobs = nullptr;
  if (calls.load_job(&jobs, id, SHOW_ALL) != SLURM_SUCCESS) return tell_failure(calls);
  calls.print_job(out, jobs, 1);
  return 0;
}

/// In the child process, whose end frees everything.
int answer(const SlurmCalls& calls, const LiveQuestion& question, std::FILE* out) {
  // Its plugins take its functions from the process, where a library opened for us alone is not.
  if (::dlopen(HVD_SLURM_SONAME, RTLD_LAZY | RTLD_GLOBAL) == nullptr) return 1;
  calls.init(nullptr);
  const int code = question.job_alone ? 0 : answer_cluster(calls, question.nodes, out);
  return code != 0 || question.job.empty() ? code : answer_job(calls, question.job, out);
}

}  // namespace

std::string slurm_library_name() { return HVD_SLURM_SONAME; }

std::string slurm_library_problem() {
  void* library = open_library(HVD_SLURM_SONAME);
  if (library == nullptr) {
    return HVD_SLURM_SONAME ", the release that hvdrun was compiled for, is not here";
  }
  SlurmCalls calls;
  return find_calls(library, calls) ? "" : HVD_SLURM_SONAME " lacks functions that its header has";
}

Result<std::string> ask_slurm_library(const LiveQuestion& question, Deadline deadline) {
  void* library = open_library(HVD_SLURM_SONAME);
  SlurmCalls calls;
  if (library == nullptr || !find_calls(library, calls)) {
    return error(Code::kUnsupported, "{}", slurm_library_problem());
  }
  const auto ask = [&](std::FILE* out) { return answer(calls, question, out); };
  HVD_TRY_ASSIGN(const Captured captured,
                 capture_call(HVD_SLURM_SONAME, ask, deadline, question.interrupt));
  if (captured.succeeded()) return captured.output;
  return error(Code::kSystem, "{}: {}", HVD_SLURM_SONAME, captured.last_words());
}

}  // namespace hvd
