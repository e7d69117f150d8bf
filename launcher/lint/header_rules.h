// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/lint/finding.h"
#include "launcher/lint/job_request.h"
#include "launcher/lint/sbatch_file.h"
#include "launcher/site/site.h"

namespace hvd {

/// What rules on a script are told. Borrowed for the call.
struct ScriptFacts {
  const SbatchFile& file;
  const JobRequest& request;
  const SiteConfig& site;
  const SitePartition* partition = nullptr;  ///< The one the job goes to; null: not known.
  std::string slurm;                         ///< Version; empty: unknown.
};

/// Lines that sbatch does not read or understand, and options given twice.
std::vector<Finding> check_syntax(const ScriptFacts& facts);

/// Numbers of nodes, tasks and GPUs that do not go together; true on any cluster.
std::vector<Finding> check_request(const ScriptFacts& facts);

/// Tasks, GPUs, cores and memory that do not go together; true on any cluster.
std::vector<Finding> check_shares(const ScriptFacts& facts);

/// Partition, QoS, time and size against the site.
std::vector<Finding> check_limits(const ScriptFacts& facts);

/// Account, hint and options that the site wants or forbids.
std::vector<Finding> check_site_options(const ScriptFacts& facts);

/// Modules against partition and order.
std::vector<Finding> check_modules(const ScriptFacts& facts);

/// The lines that start tasks.
std::vector<Finding> check_launches(const ScriptFacts& facts);

/// Variables that say which rank a process is, set to one value for all ranks.
std::vector<Finding> check_identity(const ScriptFacts& facts);

/// Steps that are too big, start launchers in their tasks, or lack an option of the site's.
std::vector<Finding> check_steps(const ScriptFacts& facts);

/// A finding at a directive.
Finding directive_finding(std::string_view rule, const Directive& directive);

/// An edit that gives `directive` another value.
Edit new_value(const Directive& directive, std::string value);

/// An edit that takes `directive` out.
Edit removal(const Directive& directive);

/// An edit that adds a line below the other directives.
Edit new_directive(const SbatchFile& file, const std::string& option);

}  // namespace hvd
