// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/rendezvous.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "bootstrap/file_store.h"
#include "bootstrap/kept_meeting.h"
#include "bootstrap/pmi2_client.h"
#include "bootstrap/pmi2_meeting.h"
#include "bootstrap/timed_call.h"
#include "transport/interfaces.h"
#include "transport/job_key.h"
#include "transport/node_exchange.h"
#include "transport/socket_address.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

/// A name of its own in the folder of temporary files.
FileMeeting meeting_of(int rank) {
  static const std::string unique = random_hex(8);
  return {.folder = testing::TempDir(),
          .name = {.stem = "hvd-ticket", .scope = unique, .span = JobSpan::kAnywhere, .reason = {}},
          .rank = rank,
          .place = {.host = "here", .machine = machine_key(), .launcher = {}}};
}

TEST(Ticket, ReadsWhatItWrote) {
  const Ticket ticket{
      .host = "jz1", .addresses = "10.0.0.1:5", .key = "ab", .nonce = "cd", .machine = "boot/4/0"};
  const auto again = parse_ticket(format_ticket(ticket));
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(again.value().host, "jz1");
  EXPECT_EQ(again.value().nonce, "cd");
  EXPECT_EQ(again.value().machine, "boot/4/0");
  for (const std::string bad :
       {"", "hvd-ticket-2", "hvd-ticket-3\na\nb\nc\nd\ne\n", "\n\n\n\n\n\n"}) {
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
    const std::string first = published_addresses(all, interface.name).front();
    const std::string text = ticket_of(served.value(), "hsn9," + interface.name).addresses;
    const auto addresses = parse_addresses(text);
    ASSERT_TRUE(addresses.is_ok()) << addresses.status().message();
    const auto expected = SocketAddress::of(first, served.value().server->port());
    EXPECT_EQ(addresses.value().front().to_string(), expected.value().to_string()) << text;
    EXPECT_EQ(ticket_of(served.value(), interface.name).addresses, text);
  }
}

TEST(RendezvousFile, AStaleFileIsReadAgain) {
  const std::string path = meeting_of(0).path();
  {
    // A run that left its file: its server is gone, and its port answers nobody.
    auto old = serve_rendezvous(soon());
    ASSERT_TRUE(old.is_ok());
    ASSERT_TRUE(write_private_file(path, format_ticket(ticket_of(old.value(), ""))).is_ok());
  }
  Result<Rendezvous> joined = Status(Code::kAborted, "not run");
  std::thread late([&] { joined = meet_by_file(meeting_of(1), soon()); });
  auto served = meet_by_file(meeting_of(0), soon());
  late.join();
  ASSERT_TRUE(served.is_ok()) << served.status().message();
  ASSERT_TRUE(joined.is_ok()) << joined.status().message();
  ASSERT_TRUE(served.value().store->set("k", "v", soon()).is_ok());
  EXPECT_EQ(joined.value().store->wait("k", soon()).value_or(""), "v");
  remove_file(served.value());
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

/// A port of this host that takes connections and never says a word, as one of a hung host does.
struct SilentPort {
  SilentPort() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), raw, length), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket.get(), raw, &length), 0);
    text = format_text("127.0.0.1:{}", ntohs(address.sin_port));
  }
  UniqueFd socket;
  std::string text;
};

/// What a crash, a full disk or somebody else left under its name.
TEST(RendezvousFile, ThatIsNoTicketIsReadAgain) {
  for (const bool is_link : {false, true}) {
    SCOPED_TRACE(is_link ? "a link" : "an empty file");
    FileMeeting meeting = meeting_of(1);
    meeting.name.stem = is_link ? "hvd-left-link" : "hvd-left-file";
    ::unlink(meeting.path().c_str());
    if (is_link) {
      ASSERT_EQ(::symlink("/dev/null", meeting.path().c_str()), 0);
    } else {
      ASSERT_TRUE(write_private_file(meeting.path(), "").is_ok());
    }
    std::thread late([&] {
      std::this_thread::sleep_for(milliseconds(100));
      FileMeeting first = meeting;
      first.rank = 0;
      const auto served = meet_by_file(first, soon());
      ASSERT_TRUE(served.is_ok()) << served.status().message();
      std::this_thread::sleep_for(milliseconds(500));
    });
    const auto joined = meet_by_file(meeting, soon());
    EXPECT_TRUE(joined.is_ok()) << joined.status().message();
    late.join();
  }
}

TEST(RendezvousFile, OfASilentHostIsReadAgain) {
  const SilentPort silent;
  FileMeeting first = meeting_of(0);
  first.name.scope = random_hex(8);
  FileMeeting second = first;
  second.rank = 1;
  const Ticket stale{.host = "hung",
                     .addresses = silent.text,
                     .key = JobKey::random().to_hex(),
                     .nonce = "n",
                     .machine = machine_key()};
  ASSERT_TRUE(write_private_file(first.path(), format_ticket(stale)).is_ok());
  Result<Rendezvous> joined = Status(Code::kAborted, "not run");
  std::thread late(
      [&] { joined = meet_by_file(second, Deadline::after(std::chrono::seconds(40))); });
  EXPECT_TRUE(wait_ready(silent.socket.get(), POLLIN, soon()).value_or(false));
  // It waits there now. Rank 0 of this run writes its own ticket.
  auto served = meet_by_file(first, soon());
  late.join();
  ASSERT_TRUE(served.is_ok()) << served.status().message();
  ASSERT_TRUE(joined.is_ok()) << joined.status().message();
}

TEST(RendezvousFile, OfAHostWithASilentAddressIsJoinedByAnotherAddress) {
  const SilentPort silent;
  auto served = serve_rendezvous(soon());
  ASSERT_TRUE(served.is_ok());
  Ticket ticket = ticket_of(served.value(), "");
  ticket.addresses = silent.text + "," + served.value().server->loopback_address();
  const auto joined = join_rendezvous(ticket, soon());
  EXPECT_TRUE(joined.is_ok()) << joined.status().message();
}

TEST(RendezvousFile, SaysThatRankZeroDidNotCome) {
  const auto met = meet_by_file(meeting_of(1), Deadline::after(milliseconds(20)));
  EXPECT_EQ(met.status().code(), Code::kTimeout);
  EXPECT_NE(met.status().message().find("rank 0 did not come"), std::string::npos);
  EXPECT_NE(met.status().message().find("HVD_RENDEZVOUS_DIR"), std::string::npos);
}

TEST(RendezvousFile, OfAnotherMachineIsRefusedWithBothHosts) {
  FileMeeting meeting = meeting_of(1);
  meeting.name.scope = random_hex(8);
  meeting.name.span = JobSpan::kOneHost;
  meeting.name.reason = "all 2 ranks are local";
  auto served = serve_rendezvous(soon());
  ASSERT_TRUE(served.is_ok());
  Ticket ticket = ticket_of(served.value(), "");
  EXPECT_TRUE(check_ticket(ticket, meeting).is_ok());
  ticket.host = "jz7";
  ticket.machine = "another";
  ASSERT_TRUE(write_private_file(meeting.path(), format_ticket(ticket)).is_ok());
  const auto met = meet_by_file(meeting, Deadline::after(milliseconds(20)));
  ::unlink(meeting.path().c_str());
  for (const std::string part :
       {"rank 0 on jz7", "this rank is on here", "all 2 ranks are local"}) {
    EXPECT_NE(met.status().message().find(part), std::string::npos) << met.status().message();
  }
}

TEST(RendezvousFile, NamesTheHostsOfJobsOfTheSameName) {
  FileMeeting theirs = meeting_of(0);
  theirs.name.stem = "hvd-like";
  Ticket ticket{
      .host = "jz8", .addresses = "10.0.0.1:5", .key = "ab", .nonce = "c", .machine = "m"};
  ASSERT_TRUE(write_private_file(theirs.path(), format_ticket(ticket)).is_ok());
  FileMeeting mine = theirs;
  mine.rank = 1;
  mine.name.scope = random_hex(8);
  const auto met = meet_by_file(mine, Deadline::after(milliseconds(20)));
  ::unlink(theirs.path().c_str());
  EXPECT_NE(met.status().message().find("have rank 0 on jz8"), std::string::npos)
      << met.status().message();
}

TEST(RendezvousFile, IsRemovedWhenTheStartFails) {
  const std::string path = meeting_of(0).path();
  { EXPECT_TRUE(meet_by_file(meeting_of(0), soon()).is_ok()); }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(RendezvousFolder, IsMadeWithThoseAboveIt) {
  const std::string top = testing::TempDir() + random_hex(8);
  const std::string wanted = top + "/a/b/c";
  const auto folder = rendezvous_folder(wanted, {});
  EXPECT_TRUE(folder.is_ok()) << folder.status().message();
  EXPECT_EQ(::access(wanted.c_str(), W_OK), 0);
  std::filesystem::remove_all(top);
}

TEST(RendezvousFolder, NamesTheFolderThatCannotBeMade) {
  const auto folder = rendezvous_folder("/proc/nowhere", {});
  ASSERT_FALSE(folder.is_ok());
  EXPECT_NE(folder.status().message().find("/proc/nowhere"), std::string::npos);
  EXPECT_EQ(safe_file_name("a/b c:1"), "a_b_c_1");
}

Status meet_as_rank_0(KeptMeeting& kept, const Environment& environment, Deadline deadline) {
  const MeetingSettings settings;
  Identity identity;
  identity.rank = 0;
  return meet_by_pmi2({.environment = environment,
                       .settings = settings,
                       .identity = identity,
                       .deadline = deadline,
                       .kept = kept});
}

/// A PMI-2 server for one client, as small as the protocol allows.
class FakePmi2 {
 public:
  explicit FakePmi2(int fd) : fd_(fd) {}
  /// Answers fences only once `event`, a descriptor, is readable: until then a rank is missing.
  FakePmi2(int fd, int event) : fd_(fd), event_(event) {}

  int fences() const { return fences_; }

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
    if (command == "kvs-fence" && event_ >= 0) {
      ++fences_;
      EXPECT_TRUE(wait_ready(event_, POLLIN, soon()).value_or(false));
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
  int event_ = -1;
  int fences_ = 0;
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

TEST(Pmi2Meeting, GoesOnAfterATimeoutAndIsHeldOnce) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd mine(ends[0]);
  const UniqueFd theirs(ends[1]);
  const UniqueFd all_came(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  FakePmi2 fake(theirs.get(), all_came.get());
  std::thread server([&] { fake.run(); });
  Environment environment;
  environment.set("PMI_FD", std::to_string(mine.get()));
  environment.set("PMI_JOBID", "7.0");
  KeptMeeting kept;
  // The fake serves rank 3 alone, which is as good as rank 0 where it puts the ticket itself.
  kept.pmi2 = std::make_unique<Pmi2Client>(
      Pmi2Client::open({.fd = mine.get(), .job = "7.0", .rank = 3}, soon()).value());
  const Status early = meet_as_rank_0(kept, environment, Deadline::after(milliseconds(20)));
  EXPECT_EQ(early.code(), Code::kTimeout);
  EXPECT_FALSE(kept.has_met);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(all_came.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  const Status late = meet_as_rank_0(kept, environment, soon());
  ASSERT_TRUE(late.is_ok()) << late.message();
  ASSERT_TRUE(kept.has_met);
  // Later starts need no server of PMI-2 any more.
  mine.reset();
  server.join();
  EXPECT_EQ(fake.fences(), 1);
  for (int start = 0; start < 2; ++start) {
    const auto zero = meet_again(kept, soon());
    ASSERT_TRUE(zero.is_ok()) << zero.status().message();
    KeptMeeting other;
    other.ticket = kept.ticket;
    const auto one_more = meet_again(other, soon());
    ASSERT_TRUE(one_more.is_ok()) << one_more.status().message();
  }
}

TEST(Pmi2Meeting, SaysThatTheDescriptorIsClosed) {
  Environment environment;
  environment.set("PMI_FD", "987654");
  KeptMeeting kept;
  for (int start = 0; start < 2; ++start) {
    const Status met = meet_as_rank_0(kept, environment, soon());
    EXPECT_EQ(met.code(), Code::kInvalidArgument);
    EXPECT_NE(met.message().find("PMI_FD=987654"), std::string::npos);
  }
}

TEST(TimedCall, GivesTheValueOrNamesTheCallThatDoesNotReturn) {
  const auto quick = call_in_time<int>(
      "Quick", [] { return 7; }, soon());
  EXPECT_EQ(quick.value_or(0), 7);
  const auto event = std::make_shared<UniqueFd>(::eventfd(0, EFD_CLOEXEC));  // with the thread
  const auto slow = call_in_time<int>(
      "PMIx_Init",
      [event] {
        std::uint64_t value = 0;
        return static_cast<int>(::read(event->get(), &value, sizeof value));
      },
      Deadline::after(milliseconds(20)));
  EXPECT_EQ(slow.status().code(), Code::kTimeout);
  EXPECT_NE(slow.status().message().find("PMIx_Init has not returned"), std::string::npos);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(event->get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

}  // namespace
}  // namespace hvd
