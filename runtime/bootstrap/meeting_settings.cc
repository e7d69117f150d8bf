// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/meeting_settings.h"

#include "base/read_setting.h"
#include "topology/launch_env.h"

namespace hvd {

Result<MeetingSettings> MeetingSettings::from(const Environment& environment) {
  MeetingSettings settings;
  HVD_TRY_ASSIGN(settings.start_timeout, read_seconds(environment, launch_env::kStartTimeout));
  settings.interfaces = read_text(environment, launch_env::kInterface);
  settings.first_interfaces = environment.has(launch_env::kBootstrapInterface)
                                  ? read_text(environment, launch_env::kBootstrapInterface)
                                  : settings.interfaces;
  settings.rendezvous_dir = read_text(environment, launch_env::kRendezvousDir);
  HVD_TRY_ASSIGN(const auto sockets, read_integer(environment, launch_env::kTcpSockets));
  settings.sockets = static_cast<int>(sockets.value_or(0));
  HVD_TRY_ASSIGN(settings.backend, read_choice(environment, launch_env::kBackend));
  HVD_TRY_ASSIGN(settings.shares_gpu, read_switch(environment, launch_env::kShareGpu));
  settings.log_words = read_text(environment, "HVD_LOG");
  return settings;
}

}  // namespace hvd
