// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace hvd {

enum class EnvForm {
  kPlain,    ///< NAME=value
  kExplain,  ///< With origin, reason, source and what was overridden.
  kJson,
  kExport,  ///< Lines for a POSIX shell.
};

/// What the user typed after `hvdrun env`.
struct EnvOptions {
  std::string site;  ///< Empty: detected.
  std::optional<int> nodes;
  std::optional<int> gpus;  ///< Per node.
  std::string fabric;       ///< Empty: detected.
  bool assume = false;
  EnvForm form = EnvForm::kPlain;
};

/// What the user typed after `hvdrun sites`.
struct SitesOptions {
  std::string site;       ///< Empty: list them all.
  bool is_draft = false;  ///< `sites new`: draft a file of the cluster on which it is typed.
  std::string draft_id;   ///< --id: of the draft; empty: the cluster's name.
  bool json = false;
  bool check = false;   ///< Say what is wrong with the files of the user and the system.
  bool fields = false;  ///< Say what a site file may hold.
};

}  // namespace hvd
