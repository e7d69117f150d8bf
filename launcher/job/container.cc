// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/container.h"

#include <string_view>

#include "launcher/site/partition_facts.h"

namespace hvd {
namespace {

constexpr std::string_view kInside =
    "hvdrun runs inside the container here: the image must have it (a static build runs anywhere).";

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// "--nv" or "--rocm", as Apptainer takes them; nothing for an empty model.
std::vector<std::string> gpu_flags(const std::string& model) {
  if (model.empty()) return {};
  return {gpu_vendor(model) == "amd" ? "--rocm" : "--nv"};
}

}  // namespace

ContainerPlan plan_container(const ContainerRequest& request) {
  ContainerPlan plan;
  if (request.image.empty()) return plan;
  if (request.runtime == "pyxis" || request.runtime == "container-engine") {
    const char* option = request.runtime == "pyxis" ? "--container-image=" : "--environment=";
    plan.srun_flags = {option + request.image};
    append(plan.srun_flags, request.flags);
    plan.notes.emplace_back(kInside);
    return plan;
  }
  if (request.runtime == "shifter") {
    plan.before_program = {"shifter", "--image=" + request.image};
    append(plan.before_program, request.flags);
    return plan;
  }
  if (request.runtime == "sarus") {
    plan.before_program = {"sarus", "run"};
    append(plan.before_program, request.flags);
    plan.before_program.push_back(request.image);
    return plan;
  }
  const bool named = !request.runtime.empty();
  plan.before_program = {named ? request.runtime : "apptainer", "exec"};
  append(plan.before_program, request.flags.empty() ? gpu_flags(request.gpu_model) : request.flags);
  plan.before_program.push_back(request.image);
  if (!named)
    plan.notes.emplace_back("The site file names no container runtime: apptainer is a guess.");
  return plan;
}

}  // namespace hvd
