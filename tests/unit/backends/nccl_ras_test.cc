// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_ras.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace hvd {
namespace {

Environment with(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set(name, value);
  return environment;
}

/// A port of this host at which nobody accepts.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_.get(), 1), 0);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }
  UniqueFd accept() { return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  UniqueFd fd_;
  std::string address_;
};

TEST(NcclRas, IsWhereItsVariableSays) {
  EXPECT_EQ(ras_address(Environment()), "127.0.0.1:28028");
  EXPECT_EQ(ras_address(with("NCCL_RAS_ADDR", "localhost:1")), "127.0.0.1:1");
  EXPECT_EQ(ras_address(with("NCCL_RAS_ADDR", "10.0.0.1:2")), "10.0.0.1:2");
  EXPECT_EQ(ras_address(with("NCCL_RAS_ENABLE", "0")), "");
}

TEST(NcclRas, TellsWhatIsAskedOfIt) {
  Listener listener;
  std::string asked;
  std::thread server([&] {
    const UniqueFd client = listener.accept();
    while (asked.find("STATUS\n") == std::string::npos) {
      char chunk[64];
      const ssize_t got = ::recv(client.get(), chunk, sizeof chunk, 0);
      ASSERT_GT(got, 0);
      asked.append(chunk, static_cast<std::size_t>(got));
    }
    const std::string answer = "SERVER PROTOCOL 2\nOK\nNCCL version 2.28.9\n";
    ASSERT_EQ(::send(client.get(), answer.data(), answer.size(), 0),
              static_cast<ssize_t>(answer.size()));
  });
  const auto answer = ask_ras(listener.address(), Deadline::after(std::chrono::seconds(30)));
  server.join();
  ASSERT_TRUE(answer.is_ok()) << answer.status().message();
  EXPECT_NE(answer.value().find("NCCL version 2.28.9"), std::string::npos);
  EXPECT_EQ(asked.rfind("CLIENT PROTOCOL", 0), 0U);
}

TEST(NcclRas, MayBeSilentOrAbsent) {
  Listener listener;
  const auto silent = ask_ras(listener.address(), Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(silent.status().code(), Code::kTimeout);
  const auto absent = ask_ras("127.0.0.1:1", Deadline::after(std::chrono::seconds(30)));
  EXPECT_EQ(absent.status().code(), Code::kSystem);
}

TEST(NcclRas, FindsErrorsAndWarningsInAnAnswer) {
  EXPECT_EQ(ras_findings("Job summary\n===========\n\nCommunicators\n"), "");
  EXPECT_EQ(ras_findings("Job summary\n\nErrors\n======\n\n#0-0 (c1) INCOMPLETE\n  Rank 3 lags\n"),
            "Errors\n#0-0 (c1) INCOMPLETE\n  Rank 3 lags");
  EXPECT_EQ(ras_findings("x\n\nWarnings\n========\n#0-0 TIMEOUT"), "Warnings\n#0-0 TIMEOUT");
  std::string long_answer = "x\nErrors\n";
  for (int line = 0; line < 100; ++line) long_answer += "one more\n";
  EXPECT_LT(ras_findings(long_answer).size(), 300U);
}

}  // namespace
}  // namespace hvd
