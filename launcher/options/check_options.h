// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// What the user typed after `hvdrun check`.
struct CheckOptions {
  bool build = false;  ///< --build: what this build and this machine have, and no more.
  bool json = false;   ///< --json: the same for programs.
};

/// `hvdrun --version`.
struct VersionOptions {
  bool verbose = false;  ///< Also what `hvdrun check --build` says.
  bool json = false;     ///< --json: the same for programs.
};

}  // namespace hvd
