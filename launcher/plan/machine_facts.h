// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/environment.h"
#include "launcher/node/fabric.h"
#include "launcher/site/condition.h"
#include "launcher/site/site.h"

namespace hvd {

/// The facts that the conditions of `variables` ask about. Pure.
std::set<Fact> asked_facts(const std::vector<SiteVariable>& variables);

/// "slingshot-11": the fabric as conditions and site files name it; empty: none.
std::string fabric_key(FabricKind kind);

/// Puts what the node's ports tell into `facts`. Pure.
void set_fabric(const std::vector<NodeNic>& nics, SiteFacts& facts);

/// Reads those of the `asked` facts that are not known yet, and no others: looking for NCCL loads a
/// large library.
void read_facts(const std::set<Fact>& asked, const Environment& environment, SiteFacts& facts);

/// The version of the libnccl or librccl that the loader finds; nothing: there is none, or this
/// hvdrun is static and loads none.
std::optional<std::string> loaded_nccl_version();

/// The version that ncclGetVersion gives as a number: 22703 is "2.27.3", 2804 "2.8.4". Pure.
std::string nccl_version(int number);

/// The first file in `folders` (separated by colons) that is a libfabric plugin of NCCL or RCCL;
/// `plugin` is NCCL_NET_PLUGIN. Empty: none.
std::string find_plugin(const std::string& folders, const std::string& plugin);

}  // namespace hvd
