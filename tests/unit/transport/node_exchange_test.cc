// SPDX-License-Identifier: Apache-2.0
#include "transport/node_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/format.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

TEST(AbstractListener, ALeaderThatTakesNoConnectionsIsGivenUpInTime) {
  const std::string name = format_text("hvd-test-{}", ::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const UniqueFd leader(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(leader.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(leader.get(), 0), 0);
  const auto first = AbstractListener::connect(name, Deadline::after(std::chrono::seconds(20)));
  ASSERT_TRUE(first.is_ok()) << first.status().message() << "; it waits in the backlog";
  const auto second =
      AbstractListener::connect(name, Deadline::after(std::chrono::milliseconds(50)));
  EXPECT_EQ(second.status().code(), Code::kTimeout) << second.status().message();
  EXPECT_EQ(second.status().message(), "the leader of the node takes no connections");
}

TEST(AbstractListener, ALeaderThatIsNotThereIsAnErrorAtOnce) {
  const auto nobody =
      AbstractListener::connect("hvd-test-nobody", Deadline::after(std::chrono::seconds(20)));
  EXPECT_EQ(nobody.status().code(), Code::kSystem);
}

}  // namespace
}  // namespace hvd
