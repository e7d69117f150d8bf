// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"
#include "topology/launch_env.h"

namespace hvd {

Result<MethodOffer> meet_by_hvdrun(const MethodInput& input) {
  const auto addresses = input.environment.get(launch_env::kStore);
  const auto key = input.environment.get(launch_env::kJobKey);
  if (!addresses) return decline("no store is served for this rank (HVD_STORE is not set)");
  if (!key) {
    return error(Code::kInvalidArgument,
                 "HVD_STORE is set but HVD_JOB_KEY is not; start the program with hvdrun");
  }
  MethodOffer offer;
  Rendezvous& rendezvous = offer.rendezvous.emplace();
  auto parsed = JobKey::from_hex(*key);
  if (!parsed.is_ok()) return parsed.status().with_context("HVD_JOB_KEY");
  rendezvous.key = parsed.value();
  auto store_addresses = parse_addresses(*addresses);
  if (!store_addresses.is_ok()) return store_addresses.status().with_context("HVD_STORE");
  HVD_TRY_ASSIGN(rendezvous.store,
                 TcpStore::connect(store_addresses.value(), rendezvous.key, input.deadline));
  offer.how = "hvdrun";
  return offer;
}

}  // namespace hvd
