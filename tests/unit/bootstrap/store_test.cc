// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "bootstrap/file_store.h"
#include "bootstrap/memory_store.h"
#include "bootstrap/store_message.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/handshake.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;

Deadline in_ten_seconds() { return Deadline::after(std::chrono::seconds(10)); }

/// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "/hvd-store-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    [[maybe_unused]] const int result = ::system(("rm -rf '" + path_ + "'").c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct TcpWorld {
  JobKey key = JobKey::random();
  std::unique_ptr<TcpStoreServer> server = TcpStoreServer::start(key).value();
  SocketAddress address = SocketAddress::parse(server->loopback_address()).value();
  std::unique_ptr<TcpStore> client() const {
    return TcpStore::connect(std::span(&address, 1), key, in_ten_seconds()).value();
  }
};

/// The same facts for every store: `open` gives one client per rank.
void check_store(const std::function<std::unique_ptr<Store>()>& open) {
  auto first = open();
  auto second = open();
  const std::string value("a\0b\n;=\xff", 7);
  std::thread writer([&] { EXPECT_TRUE(first->set("key/1", value, in_ten_seconds()).is_ok()); });
  const auto got = second->wait("key/1", in_ten_seconds());
  writer.join();
  ASSERT_TRUE(got.is_ok()) << got.status().message();
  EXPECT_EQ(got.value(), value);
  const auto late = second->wait("never", Deadline::after(milliseconds(20)));
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  EXPECT_NE(late.status().message().find("never"), std::string::npos);
  std::thread other([&] {
    const auto all = first->allgather("r", 0, 2, "zero", in_ten_seconds());
    EXPECT_TRUE(all.is_ok());
  });
  const auto all = second->allgather("r", 1, 2, "one", in_ten_seconds());
  other.join();
  ASSERT_TRUE(all.is_ok()) << all.status().message();
  EXPECT_EQ(all.value(), (std::vector<std::string>{"zero", "one"}));
  const auto alone = second->allgather("alone", 1, 4, "", Deadline::after(milliseconds(20)));
  EXPECT_EQ(alone.status().code(), Code::kTimeout);
  EXPECT_NE(alone.status().message().find("ranks 0, 2, 3"), std::string::npos);
}

/// Lets several owners hold one store.
class Shared : public Store {
 public:
  explicit Shared(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::string_view name() const override { return store_->name(); }
  Status set(std::string_view key, std::string_view value, Deadline deadline) override {
    return store_->set(key, value, deadline);
  }
  Result<std::string> wait(std::string_view key, Deadline deadline) override {
    return store_->wait(key, deadline);
  }

 private:
  std::shared_ptr<Store> store_;  // shared by the clients of one test
};

TEST(TcpStoreServer, KnowsWhetherAClientWithTheKeyHasCome) {
  const TcpWorld world;
  EXPECT_FALSE(world.server->has_served());
  const auto stranger = TcpStore::connect(std::span(&world.address, 1), JobKey::random(),
                                          Deadline::after(milliseconds(300)));
  EXPECT_FALSE(stranger.is_ok());
  EXPECT_FALSE(world.server->has_served());
  const auto client = world.client();
  ASSERT_TRUE(client->set("key", "value", in_ten_seconds()).is_ok());
  // An answer comes after the proof.
  ASSERT_TRUE(client->wait("key", in_ten_seconds()).is_ok());
  EXPECT_TRUE(world.server->has_served());
}

TEST(Store, MemoryStoreKeepsTheContract) {
  const auto memory = std::make_shared<MemoryStore>();
  check_store([&] { return std::make_unique<Shared>(memory); });
}

TEST(Store, FileStoreKeepsTheContract) {
  const TemporaryFolder folder;
  check_store([&] { return std::make_unique<FileStore>(folder.path()); });
}

TEST(Store, TcpStoreKeepsTheContract) {
  const TcpWorld world;
  check_store([&] { return world.client(); });
}

TEST(TcpStore, RefusesAnotherJobAtOnce) {
  const TcpWorld world;
  const auto store =
      TcpStore::connect(std::span(&world.address, 1), JobKey::random(), in_ten_seconds());
  ASSERT_FALSE(store.is_ok());
  EXPECT_NE(store.status().message().find("another job's key"), std::string::npos);
  EXPECT_TRUE(world.client()->set("still", "served", in_ten_seconds()).is_ok());
}

TEST(TcpStore, GoesOnWhenStrangersCall) {
  const TcpWorld world;
  std::vector<UniqueFd> strangers;
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    UniqueFd& stranger = strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(stranger.get(), world.address.raw(), world.address.length()), 0);
    std::string garbage(random() % 300, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    ::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  const auto store = world.client();
  EXPECT_TRUE(store->set("k", "v", in_ten_seconds()).is_ok());
  EXPECT_EQ(store->wait("k", in_ten_seconds()).value_or(""), "v");
}

TEST(TcpStore, TellsTwoProcessesWithOneRank) {
  const TcpWorld world;
  // Whichever comes second, both hear of it.
  const auto first = world.client();
  const auto second = world.client();
  Status of_first;
  std::thread other([&] {
    const TcpStore::Rank rank{.rank = 0, .size = 2, .who = "process 5 on jz1"};
    of_first = first->join(rank, "", in_ten_seconds()).status();
  });
  const TcpStore::Rank rank{.rank = 0, .size = 2, .who = "process 6 on jz2"};
  const Status of_second = second->join(rank, "", in_ten_seconds()).status();
  other.join();
  for (const Status& status : {of_first, of_second}) {
    EXPECT_EQ(status.code(), Code::kMismatch);
    for (const std::string part : {"rank 0 came twice", "process 5 on jz1", "process 6 on jz2"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
}

TEST(TcpStore, TakesNoMoreFromWhoReadsNoAnswers) {
  const TcpWorld world;
  auto reader = world.client();
  ASSERT_TRUE(reader->set("key", std::string(512, 'x'), in_ten_seconds()).is_ok());
  UniqueFd mute(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(mute.get(), world.address.raw(), world.address.length()), 0);
  ASSERT_TRUE(
      shake_hands(mute.get(), Handshake::Side::kClient, world.key, in_ten_seconds()).is_ok());
  const Bytes request =
      encode(store_message::Request{.verb = store_message::Verb::kWait, .key = "key"});
  ByteWriter frame;
  frame.put(static_cast<std::uint32_t>(request.size()));
  frame.put_raw(request);
  // The kernel holds some megabytes of them, and of answers.
  constexpr int kMost = 400'000;
  int sent = 0;
  for (pollfd room{.fd = mute.get(), .events = POLLOUT, .revents = 0};
       sent < kMost && ::poll(&room, 1, 500) == 1; ++sent) {
    if (::send(mute.get(), frame.bytes().data(), frame.bytes().size(), MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_LT(sent, kMost);
  EXPECT_EQ(reader->wait("key", in_ten_seconds()).value().size(), 512U) << "others are served";
}

/// A rank that is gone while the server still has an answer for it.
TEST(TcpStore, TellsOfARankThatLeftBeforeItReadItsAnswers) {
  const TcpWorld world;
  const auto other = world.client();
  const std::string value(std::size_t{1} << 20, 'x');
  ASSERT_TRUE(other->set("key", value, in_ten_seconds()).is_ok());
  UniqueFd mute(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(mute.get(), world.address.raw(), world.address.length()), 0);
  ASSERT_TRUE(
      shake_hands(mute.get(), Handshake::Side::kClient, world.key, in_ten_seconds()).is_ok());
  ByteWriter frames;
  const auto ask = [&frames](const store_message::Request& request) {
    const Bytes bytes = encode(request);
    frames.put(static_cast<std::uint32_t>(bytes.size()));
    frames.put_raw(bytes);
  };
  ask({.verb = store_message::Verb::kJoin,
       .key = "join",
       .who = "process 5 on jz1",
       .rank = 1,
       .size = 3,
       .timeout_ms = 60'000});
  // More answers than the kernel holds.
  for (int i = 0; i < 64; ++i) ask({.verb = store_message::Verb::kWait, .key = "key"});
  ASSERT_EQ(::send(mute.get(), frames.bytes().data(), frames.bytes().size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(frames.bytes().size()));
  pollfd answered{.fd = mute.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&answered, 1, 10'000), 1);
  mute.reset();
  const TcpStore::Rank rank{.rank = 0, .size = 3, .who = "process 6 on jz2"};
  const Status joined = other->join(rank, "", in_ten_seconds()).status();
  EXPECT_EQ(joined.code(), Code::kPeerLost);
  EXPECT_NE(joined.message().find("rank 1 (process 5 on jz1) ended while the ranks met"),
            std::string::npos)
      << joined.message();
}

TEST(TcpStore, SaysWhenTheServerIsGone) {
  auto world = std::make_unique<TcpWorld>();
  const auto store = world->client();
  world.reset();
  const auto got = store->wait("k", in_ten_seconds());
  EXPECT_EQ(got.status().code(), Code::kPeerLost);
}

TEST(TcpStore, NamesThePortThatIsInUse) {
  const TcpWorld world;
  const auto again = TcpStoreServer::start(world.key, world.server->port());
  EXPECT_NE(again.status().message().find("in use"), std::string::npos);
}

TEST(StoreMessage, SurvivesRandomBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random() % 64);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 8);
    [[maybe_unused]] const auto request = store_message::decode_request(bytes);
    [[maybe_unused]] const auto reply = store_message::decode_reply(bytes);
  }
}

TEST(PrivateFile, RefusesAFileOpenToOthers) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/ticket";
  ASSERT_TRUE(write_private_file(path, "secret").is_ok());
  EXPECT_EQ(read_private_file(path, 100).value_or(""), "secret");
  EXPECT_FALSE(read_private_file(path, 3).is_ok());
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(read_private_file(path, 100).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hvd
