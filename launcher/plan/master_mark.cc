// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/master_mark.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "topology/identity.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// HVD_MASTER_OF in its parts; empty ones where it says nothing.
struct MasterMark {
  std::string step;
  std::string address;
  std::string port;
};

MasterMark read_mark(const Environment& environment) {
  const std::string text = environment.get(launch_env::kMasterOf).value_or("");
  const std::size_t slash = text.find('/');
  const std::size_t colon = text.rfind(':');
  if (slash == std::string::npos || colon == std::string::npos || colon < slash) return {};
  return {text.substr(0, slash), text.substr(slash + 1, colon - slash - 1), text.substr(colon + 1)};
}

bool is_marked(const Environment& environment, std::string_view name, const std::string& marked) {
  return !marked.empty() && environment.get(name) == marked;
}

/// The value of `name` where it is hvdrun's: made now, or marked before.
std::string own_value(const std::vector<PlannedVariable>& planned, std::string_view name,
                      const std::string& marked) {
  const auto found =
      std::find_if(planned.begin(), planned.end(),
                   [name](const PlannedVariable& variable) { return variable.name == name; });
  if (found == planned.end() || found->origin == "command line") return {};
  return found->origin != "user environment" || found->value == marked ? found->value
                                                                       : std::string();
}

std::vector<std::string> identity_of_other_steps(const Environment& environment,
                                                 std::string_view step) {
  if (!environment.has(launch_env::kRankOf)) return {};
  const RankMark mark = read_rank_mark(environment);
  if (!step.empty() && mark.step == step) return {};
  std::vector<std::string> names{std::string(launch_env::kRankOf)};
  if (mark.is_right) names.insert(names.end(), kTorchIdentity.begin(), kTorchIdentity.end());
  return names;
}

}  // namespace

std::string mark_rank(const std::string& step, int rank) {
  return format_text("{}/{}", step, rank);
}

std::vector<std::string> marked_for_other_steps(const Environment& environment,
                                                std::string_view step) {
  std::vector<std::string> names = identity_of_other_steps(environment, step);
  if (!environment.has(launch_env::kMasterOf)) return names;
  const MasterMark mark = read_mark(environment);
  if (!step.empty() && mark.step == step) return names;
  for (const auto& [name, marked] :
       {std::pair{kMasterAddress, mark.address}, std::pair{kMasterPort, mark.port}}) {
    if (is_marked(environment, name, marked)) names.emplace_back(name);
  }
  names.emplace_back(launch_env::kMasterOf);
  return names;
}

std::string mark_masters(const std::vector<PlannedVariable>& planned, const Environment& user,
                         const std::string& step) {
  MasterMark before = read_mark(user);
  if (before.step != step) before = {};
  const std::string address = own_value(planned, kMasterAddress, before.address);
  const std::string port = own_value(planned, kMasterPort, before.port);
  if (step.empty() || (address.empty() && port.empty())) return {};
  return format_text("{}/{}:{}", step, address, port);
}

}  // namespace hvd
