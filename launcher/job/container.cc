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

constexpr std::string_view kDocker = "docker://";

/// "nvcr.io#nvidia/pytorch:24.01", as pyxis and enroot write an image of a registry.
bool is_pyxis_image(std::string_view image) {
  return image.find('#') != std::string_view::npos && !image.starts_with("/") &&
         !image.starts_with(".") && image.find("://") == std::string_view::npos;
}

/// The image in the words of Apptainer, which wants "docker://nvcr.io/nvidia/pytorch:24.01".
std::string for_apptainer(std::string image) {
  if (!is_pyxis_image(image)) return image;
  image[image.find('#')] = '/';
  return std::string(kDocker) + image;
}

/// The image in the words of pyxis, which takes a registry before a '#' alone.
std::string for_pyxis(const std::string& image) {
  if (!image.starts_with(kDocker)) return image;
  std::string name = image.substr(kDocker.size());
  const std::size_t slash = name.find('/');
  // As Docker tells a registry from a user: "nvcr.io/...", "localhost:5000/...".
  if (slash != std::string::npos && name.substr(0, slash).find_first_of(".:") < slash) {
    name[slash] = '#';
  }
  return name;
}

}  // namespace

ContainerPlan plan_container(const ContainerRequest& request) {
  ContainerPlan plan;
  if (request.image.empty()) return plan;
  const bool named = !request.runtime.empty();
  const bool is_pyxis = named ? request.runtime == "pyxis" : is_pyxis_image(request.image);
  if (is_pyxis || request.runtime == "container-engine") {
    plan.srun_flags = {is_pyxis ? "--container-image=" + for_pyxis(request.image)
                                : "--environment=" + request.image};
    append(plan.srun_flags, request.flags);
    plan.notes.emplace_back(kInside);
    if (!named) {
      plan.notes.emplace_back(
          "The site file names no container runtime: pyxis is a guess, from the '#' in the image.");
    }
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
  plan.before_program = {named ? request.runtime : "apptainer", "exec"};
  append(plan.before_program, request.flags.empty() ? gpu_flags(request.gpu_model) : request.flags);
  plan.before_program.push_back(for_apptainer(request.image));
  if (!named)
    plan.notes.emplace_back("The site file names no container runtime: apptainer is a guess.");
  return plan;
}

}  // namespace hvd
