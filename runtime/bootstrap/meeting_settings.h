// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// The settings of the user by which the ranks meet and connect.
struct MeetingSettings {
  std::chrono::milliseconds start_timeout{120'000};  ///< HVD_START_TIMEOUT_SECONDS.
  std::string interfaces = {};                       ///< HVD_INTERFACE; empty: all that are up.
  /// HVD_BOOTSTRAP_INTERFACE, else HVD_INTERFACE: those of rank 0 that are tried first.
  std::string first_interfaces = {};
  std::string rendezvous_dir = {};  ///< HVD_RENDEZVOUS_DIR; empty: ~/.cache/hvd.
  int sockets = 0;                  ///< HVD_TCP_SOCKETS; 0: to use every NIC.
  std::string backend = {};         ///< HVD_BACKEND, which all ranks must have alike.
  bool shares_gpu = false;          ///< HVD_SHARE_GPU.
  std::string log_words = {};       ///< HVD_LOG, of which rank 0 warns.

  static Result<MeetingSettings> from(const Environment& environment);
};

}  // namespace hvd
