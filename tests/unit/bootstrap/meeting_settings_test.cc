// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/meeting_settings.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

TEST(MeetingSettings, HaveTheDefaultsOfTheTable) {
  const MeetingSettings read = MeetingSettings::from({}).value();
  const MeetingSettings plain;
  EXPECT_EQ(read.start_timeout, plain.start_timeout);
  EXPECT_EQ(read.interfaces, plain.interfaces);
  EXPECT_EQ(read.first_interfaces, plain.first_interfaces);
  EXPECT_EQ(read.rendezvous_dir, plain.rendezvous_dir);
  EXPECT_EQ(read.sockets, plain.sockets);
  EXPECT_EQ(read.backend, plain.backend);
  EXPECT_EQ(read.shares_gpu, plain.shares_gpu);
  EXPECT_EQ(read.log_words, plain.log_words);
}

TEST(MeetingSettings, TryTheInterfaceOfTheBootstrapFirst) {
  Environment environment;
  environment.set("HVD_INTERFACE", "ib0");
  EXPECT_EQ(MeetingSettings::from(environment).value().first_interfaces, "ib0");
  environment.set("HVD_BOOTSTRAP_INTERFACE", "eth1");
  EXPECT_EQ(MeetingSettings::from(environment).value().first_interfaces, "eth1");
  EXPECT_EQ(MeetingSettings::from(environment).value().interfaces, "ib0");
}

TEST(MeetingSettings, RefuseWhatTheirRowsDoNotTake) {
  for (const char* name :
       {"HVD_START_TIMEOUT_SECONDS", "HVD_TCP_SOCKETS", "HVD_BACKEND", "HVD_SHARE_GPU"}) {
    Environment environment;
    environment.set(name, "yes");
    const Status status = MeetingSettings::from(environment).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_TRUE(status.message().starts_with(std::string(name) + "='yes' is not ")) << name;
  }
}

}  // namespace
}  // namespace hvd
