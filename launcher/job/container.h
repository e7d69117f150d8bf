// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

struct ContainerRequest {
  std::string image;
  std::string runtime;             ///< "apptainer", "pyxis", ...; empty: the site does not say.
  std::vector<std::string> flags;  ///< The site's; none: those of the GPUs' maker.
  std::string gpu_model;           ///< Empty: no GPUs.
};

/// How a program gets into its container: words for srun, and words before the program.
struct ContainerPlan {
  std::vector<std::string> srun_flags;
  std::vector<std::string> before_program;  ///< Behind hvdrun, which runs outside.
  std::vector<std::string> notes;           ///< Comments for the script.
};

/// No image: nothing.
ContainerPlan plan_container(const ContainerRequest& request);

}  // namespace hvd
