// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/result.h"
#include "topology/identity.h"

namespace hvd {

/// Where a process runs, as far as it tells the jobs of one user apart.
struct ProcessPlace {
  std::string host;      ///< For people.
  std::string machine;   ///< machine_key().
  std::string launcher;  ///< launcher_process(); empty: not known, or not asked for.
};

/// Where all ranks of a job are, as far as its launcher says.
enum class JobSpan {
  kAnywhere,
  kOneHost,     ///< Ranks in containers of it may see networks of their own.
  kOneNetwork,  ///< In one network name space, where they share a loopback address.
};

/// The name of the rendezvous file of a job: equal on all its ranks, on no others.
struct JobName {
  std::string stem;   ///< What people recognise: launcher, job.
  std::string scope;  ///< 16 hex digits of all that names the job.
  JobSpan span = JobSpan::kAnywhere;
  std::string reason;  ///< Why the span is what it is: "all 2 ranks are local".

  std::string file() const { return stem + "." + scope; }
};

/// Names the job by what its launcher says of it. Launchers that count jobs of one machine only
/// (torchrun's default is 127.0.0.1:29500 everywhere) are completed by the machine and by the
/// process that started the ranks. kUnsupported: nothing names the job.
Result<JobName> name_job(const Environment& environment, const Identity& identity,
                         const ProcessPlace& place);

/// The variable that only ranks and what they start have, where the process that started the ranks
/// is a part of the job's name (torchrun, MPICH); else empty.
std::string_view launcher_mark(const Identity& identity);

/// The nearest ancestor of this process that was started without the variable `mark`: wrappers
/// between the launcher and the rank have it. "PID.START.NAMESPACE"; empty: none that can be read.
std::string launcher_process(std::string_view mark);

/// The part of a machine_key() that is equal on all ranks of a job of that span.
std::string_view place_within(JobSpan span, std::string_view machine);

/// True for the names and addresses under which a host reaches itself alone.
bool is_loopback_name(std::string_view host);

}  // namespace hvd
