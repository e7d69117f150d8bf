// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/rendezvous.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "bootstrap/file_store.h"
#include "bootstrap/pmi2_client.h"
#include "transport/interfaces.h"
#include "transport/socket_address.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

std::string temporary_path() {
  std::string pattern = testing::TempDir() + "/hvd-ticket-XXXXXX";
  const UniqueFd fd(::mkstemp(pattern.data()));
  ::unlink(pattern.c_str());
  return pattern;
}

TEST(Ticket, ReadsWhatItWrote) {
  const Ticket ticket{.host = "jz1", .addresses = "10.0.0.1:5", .key = "ab", .nonce = "cd"};
  const auto again = parse_ticket(format_ticket(ticket));
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(again.value().host, "jz1");
  EXPECT_EQ(again.value().nonce, "cd");
  for (const std::string bad : {"", "hvd-ticket-1", "hvd-ticket-2\na\nb\nc\nd\n", "\n\n\n\n\n"}) {
    EXPECT_FALSE(parse_ticket(bad).is_ok()) << bad;
  }
}

TEST(Ticket, HasTheAddressesOfTheInterfaceToTryFirstBeforeTheOthers) {
  const auto all = interfaces_of_host();
  const auto choice = choose_interfaces(all, "");
  ASSERT_TRUE(choice.is_ok());
  auto served = serve_rendezvous(soon());
  ASSERT_TRUE(served.is_ok()) << served.status().message();
  for (const Interface& interface : choice.value().usable) {
    Environment environment;
    environment.set("HVD_INTERFACE", "nonsense");
    environment.set("HVD_BOOTSTRAP_INTERFACE", "hsn9," + interface.name);
    const std::string first = published_addresses(all, interface.name).front();
    const std::string text = ticket_of(served.value(), environment).addresses;
    const auto addresses = parse_addresses(text);
    ASSERT_TRUE(addresses.is_ok()) << addresses.status().message();
    const auto expected = SocketAddress::of(first, served.value().server->port());
    EXPECT_EQ(addresses.value().front().to_string(), expected.value().to_string()) << text;
    environment.unset("HVD_BOOTSTRAP_INTERFACE");
    environment.set("HVD_INTERFACE", interface.name);
    EXPECT_EQ(ticket_of(served.value(), environment).addresses, text);
  }
}

TEST(RendezvousFile, AStaleFileIsReadAgain) {
  const std::string path = temporary_path();
  {
    // A run that left its file: its server is gone, and its port answers nobody.
    auto old = serve_rendezvous(soon());
    ASSERT_TRUE(old.is_ok());
    ASSERT_TRUE(
        write_private_file(path, format_ticket(ticket_of(old.value(), Environment()))).is_ok());
  }
  Result<Rendezvous> joined = Status(Code::kAborted, "not run");
  std::thread late([&] { joined = meet_by_file(path, 1, Environment(), soon()); });
  auto served = meet_by_file(path, 0, Environment(), soon());
  late.join();
  ASSERT_TRUE(served.is_ok()) << served.status().message();
  ASSERT_TRUE(joined.is_ok()) << joined.status().message();
  ASSERT_TRUE(served.value().store->set("k", "v", soon()).is_ok());
  EXPECT_EQ(joined.value().store->wait("k", soon()).value_or(""), "v");
  remove_file(served.value());
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(RendezvousFile, SaysThatRankZeroDidNotCome) {
  const auto met =
      meet_by_file(temporary_path(), 1, Environment(), Deadline::after(milliseconds(20)));
  EXPECT_EQ(met.status().code(), Code::kTimeout);
  EXPECT_NE(met.status().message().find("rank 0 did not come"), std::string::npos);
  EXPECT_NE(met.status().message().find("HVD_RENDEZVOUS_DIR"), std::string::npos);
}

TEST(RendezvousFile, IsRemovedWhenTheStartFails) {
  const std::string path = temporary_path();
  { EXPECT_TRUE(meet_by_file(path, 0, Environment(), soon()).is_ok()); }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(RendezvousFolder, NamesTheFolderThatCannotBeMade) {
  Environment environment;
  environment.set("HVD_RENDEZVOUS_DIR", "/proc/nowhere");
  const auto folder = rendezvous_folder(environment);
  ASSERT_FALSE(folder.is_ok());
  EXPECT_NE(folder.status().message().find("/proc/nowhere"), std::string::npos);
  EXPECT_EQ(safe_file_name("a/b c:1"), "a_b_c_1");
}

/// A PMI-2 server for one client, as small as the protocol allows.
class FakePmi2 {
 public:
  explicit FakePmi2(int fd) : fd_(fd) {}

  void run() {
    const std::string hello = "cmd=init pmi_version=2 pmi_subversion=0\n";
    EXPECT_EQ(read(hello.size()), hello);
    write("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
    while (answer()) {
    }
  }

 private:
  std::string read(std::size_t size) {
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size) {
      const auto got = ::read(fd_, text.data() + done, size - done);
      if (got <= 0) return {};
      done += static_cast<std::size_t>(got);
    }
    return text;
  }
  void write(const std::string& text) {
    ASSERT_EQ(::write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  static std::string field(const std::string& body, const std::string& name) {
    const auto begin = body.find(";" + name + "=");
    if (begin == std::string::npos) return {};
    const auto value = begin + name.size() + 2;
    return body.substr(value, body.find(';', value) - value);
  }
  bool answer() {
    const std::string length = read(6);
    if (length.empty()) return false;
    const std::string body = read(static_cast<std::size_t>(std::stoi(length)));
    const std::string command = body.substr(4, body.find(';') - 4);
    std::string reply = "cmd=" + command + "-response;rc=0;";
    if (command == "fullinit" &&
        (field(body, "pmijobid").empty() || field(body, "pmirank") != "3")) {
      reply = "cmd=fullinit-response;rc=3;";
    }
    if (command == "kvs-put") {
      EXPECT_LE(field(body, "value").size(), 1024U);
      values_[field(body, "key")] = field(body, "value");
    }
    if (command == "kvs-get") {
      const auto found = values_.find(field(body, "key"));
      reply += found == values_.end() ? "found=FALSE;" : "found=TRUE;value=" + found->second + ";";
    }
    std::array<char, 8> prefix{};
    std::snprintf(prefix.data(), prefix.size(), "%6zu", reply.size());
    write(std::string(prefix.data(), 6) + reply);
    return true;
  }

  int fd_;
  std::map<std::string, std::string> values_;
};

TEST(Pmi2Client, CarriesLongValuesInPieces) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd mine(ends[0]);
  const UniqueFd theirs(ends[1]);
  std::thread server([&] { FakePmi2(theirs.get()).run(); });
  {
    auto client = Pmi2Client::open({.fd = mine.get(), .job = "7.0", .rank = 3}, soon());
    ASSERT_TRUE(client.is_ok()) << client.status().message();
    std::string value;
    for (int i = 0; i < 3000; ++i) value += static_cast<char>(i * 7);
    EXPECT_TRUE(client.value().put("k", value, soon()).is_ok());
    EXPECT_TRUE(client.value().fence(soon()).is_ok());
    EXPECT_EQ(client.value().get("k", soon()).value_or(""), value);
    EXPECT_FALSE(client.value().get("other", soon()).is_ok());
  }
  mine.reset();
  server.join();
}

TEST(Pmi2Client, GivesUpAtItsDeadline) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd mine(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto client = Pmi2Client::open({.fd = mine.get(), .job = "7.0", .rank = 3},
                                       Deadline::after(milliseconds(20)));
  EXPECT_EQ(client.status().code(), Code::kTimeout);
}

TEST(Pmi2Client, SaysThatTheDescriptorIsClosed) {
  Environment environment;
  environment.set("PMI_FD", "987654");
  const auto met = meet_by_pmi2(environment, 0, soon());
  EXPECT_EQ(met.status().code(), Code::kInvalidArgument);
  EXPECT_NE(met.status().message().find("PMI_FD=987654"), std::string::npos);
}

}  // namespace
}  // namespace hvd
