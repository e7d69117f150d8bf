// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/machine_facts.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/format.h"
#include "launcher/node/fabric.h"
#include "launcher/plan/open_library.h"

namespace hvd {
namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// The names under which NCCL and RCCL look for a plugin.
std::vector<std::string> plugin_names(const std::string& plugin) {
  std::vector<std::string> names{"libnccl-net.so", "librccl-net.so", "libnccl-net-ofi.so",
                                 "librccl-net-ofi.so"};
  if (plugin.empty() || plugin == "none") return names;
  if (plugin.find('/') != std::string::npos || plugin.ends_with(".so")) return {plugin};
  names.insert(names.begin(), {"libnccl-net-" + plugin + ".so", "librccl-net-" + plugin + ".so"});
  return names;
}

bool has_plugin(const Environment& environment) {
  const std::string plugin = environment.get("NCCL_NET_PLUGIN").value_or("");
  if (plugin == "none") return false;
  if (!find_plugin(environment.get("LD_LIBRARY_PATH").value_or(""), plugin).empty()) return true;
  const std::vector<std::string> names = plugin_names(plugin);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return open_library(name) != nullptr; });
}

bool is_container(const Environment& environment) {
  constexpr std::array<std::string_view, 4> kVariables{
      "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SHIFTER_RUNTIME", "ENROOT_ROOTFS"};
  return exists("/.dockerenv") || exists("/run/.containerenv") ||
         std::any_of(kVariables.begin(), kVariables.end(),
                     [&](std::string_view name) { return environment.has(name); });
}

std::optional<std::string> read_gpu_vendor() {
  if (exists("/dev/nvidiactl")) return "nvidia";
  if (exists("/dev/kfd")) return "amd";
  return std::nullopt;
}

}  // namespace

std::set<Fact> asked_facts(const std::vector<SiteVariable>& variables) {
  std::set<Fact> asked;
  for (const SiteVariable& variable : variables) {
    const Result<Condition> condition = parse_condition(variable.when);
    if (!condition.is_ok()) continue;
    for (const ConditionTerm& term : condition.value()) asked.insert(term.fact);
  }
  return asked;
}

std::string fabric_key(FabricKind kind) {
  if (kind == FabricKind::kNone) return "";
  std::string key;
  for (const char c : fabric_name(kind)) {
    key += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return key;
}

void set_fabric(const std::vector<NodeNic>& nics, SiteFacts& facts) {
  const Fabric fabric = detect_fabric(nics);
  facts.fabric = fabric_key(fabric.kind);
  facts.interfaces = fabric.interfaces;
  facts.devices = fabric.devices;
  facts.mixed_ports = std::any_of(nics.begin(), nics.end(), [&](const NodeNic& nic) {
    return !nic.device.empty() && std::find(fabric.devices.begin(), fabric.devices.end(),
                                            nic.device) == fabric.devices.end();
  });
}

void read_facts(const std::set<Fact>& asked, const Environment& environment, SiteFacts& facts) {
  const auto is_asked = [&](Fact fact) { return asked.count(fact) != 0; };
  if (is_asked(Fact::kNccl) && !facts.nccl) facts.nccl = loaded_nccl_version();
  if (is_asked(Fact::kPluginFound) && !facts.plugin_found) {
    facts.plugin_found = has_plugin(environment);
  }
  if (is_asked(Fact::kContainer) && !facts.container) facts.container = is_container(environment);
  if (is_asked(Fact::kGpuVendor) && !facts.gpu_vendor) facts.gpu_vendor = read_gpu_vendor();
  if (is_asked(Fact::kPartition) && !facts.partition) {
    facts.partition = environment.get("SLURM_JOB_PARTITION");
  }
  if (is_asked(Fact::kStepNetwork) && !facts.step_network) {
    facts.step_network = environment.get("SLURM_NETWORK");
  }
}

std::optional<std::string> loaded_nccl_version() {
  for (const char* name : {"libnccl.so.2", "libnccl.so", "librccl.so.1"}) {
    void* library = open_library(name);
    if (library == nullptr) continue;
    using GetVersion = int (*)(int*);
    const auto get_version = reinterpret_cast<GetVersion>(::dlsym(library, "ncclGetVersion"));
    int number = 0;
    if (get_version != nullptr && get_version(&number) == 0 && number > 0) {
      return nccl_version(number);
    }
  }
  return std::nullopt;
}

std::string nccl_version(int number) {
  const int major = number >= 20000 ? number / 10000 : number / 1000;
  const int rest = number >= 20000 ? number % 10000 : number % 1000;
  return format_text("{}.{}.{}", major, rest / 100, rest % 100);
}

std::string find_plugin(const std::string& folders, const std::string& plugin) {
  const std::vector<std::string> names = plugin_names(plugin);
  if (plugin.find('/') != std::string::npos) return exists(plugin) ? plugin : "";
  std::size_t begin = 0;
  while (begin < folders.size()) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    for (const std::string& name : names) {
      std::string path = folder;
      path.append("/").append(name);
      if (!folder.empty() && exists(path)) return path;
    }
    begin = end + 1;
  }
  return "";
}

}  // namespace hvd
