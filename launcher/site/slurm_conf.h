// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"

namespace hvd {

/// The slurm.conf of this machine: that of SLURM_CONF, else where packages put it; empty: none is
/// there. A cluster without such files on its nodes has none either.
std::string slurm_conf_path(const Environment& environment);

/// The value of ClusterName in the text of a slurm.conf; empty: not said there. Pure.
std::string cluster_name_of(std::string_view text);

/// The name of the cluster in the slurm.conf of this machine; empty: not known.
std::string read_slurm_conf_cluster(const Environment& environment);

}  // namespace hvd
