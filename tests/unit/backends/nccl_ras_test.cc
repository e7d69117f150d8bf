// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_ras.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace hvd {
namespace {

/// A port of this host at which nobody accepts.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listen_at(reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  /// Port 0: this host has no such address, as where IPv6 is switched off.
  explicit Listener(const addrinfo& place)
      : fd_(::socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (fd_.is_open()) listen_at(place.ai_addr, place.ai_addrlen);
  }
  std::string port() const { return std::to_string(port_); }
  std::string address() const { return "127.0.0.1:" + port(); }
  bool is_there() const { return port_ != 0; }
  int fd() const { return fd_.get(); }
  UniqueFd accept() { return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  void listen_at(const sockaddr* address, socklen_t length) {
    if (::bind(fd_.get(), address, length) != 0) return;
    EXPECT_EQ(::listen(fd_.get(), 1), 0);
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    // The port is in the same place for both families.
    port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  }
  UniqueFd fd_;
  int port_ = 0;
};

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

TEST(NcclRas, IsFoundAtEachAddressOfItsName) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* places = nullptr;
  ASSERT_EQ(::getaddrinfo("localhost", nullptr, &wanted, &places), 0);
  int tried = 0;
  for (const addrinfo* place = places; place != nullptr; place = place->ai_next) {
    Listener listener(*place);
    if (!listener.is_there()) continue;
    ++tried;
    std::thread server([&] {
      const UniqueFd client = listener.accept();
      const std::string_view answer = "SERVER PROTOCOL 2\n";
      EXPECT_EQ(::send(client.get(), answer.data(), answer.size(), 0),
                static_cast<ssize_t>(answer.size()));
      ::shutdown(client.get(), SHUT_WR);
      char rest[64];
      while (::recv(client.get(), rest, sizeof rest, 0) > 0) {
      }
    });
    const auto answer =
        ask_ras("localhost:" + listener.port(), Deadline::after(std::chrono::seconds(30)));
    if (!answer.is_ok()) ::shutdown(listener.fd(), SHUT_RDWR);
    server.join();
    EXPECT_EQ(answer.value_or(answer.status().message()), "SERVER PROTOCOL 2\n");
  }
  ::freeaddrinfo(places);
  EXPECT_GT(tried, 0);
}

TEST(NcclRas, MayBeSilentOrAbsent) {
  Listener listener;
  const auto silent = ask_ras(listener.address(), Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(silent.status().code(), Code::kTimeout);
  const auto absent = ask_ras("127.0.0.1:1", Deadline::after(std::chrono::seconds(30)));
  EXPECT_EQ(absent.status().code(), Code::kSystem);
  const std::string too_long(70, 'x');  // for a name, so that no server is asked for it
  for (const std::string& wrong :
       {std::string("localhost"), std::string("localhost:port"), too_long + ":1"}) {
    const auto nowhere = ask_ras(wrong, Deadline::after(std::chrono::seconds(30)));
    EXPECT_EQ(nowhere.status().code(), Code::kInvalidArgument) << wrong;
    EXPECT_NE(nowhere.status().message().find(wrong), std::string::npos) << wrong;
  }
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
