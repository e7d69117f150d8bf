// SPDX-License-Identifier: Apache-2.0
#include "transport/link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <vector>

#include "socket_pair.h"
#include "transport/message_link.h"

namespace hvd {
namespace {

Status send(MessageLink& link, Bytes message) {
  HVD_TRY(link.queue(std::move(message)));
  return link.flush();
}

Bytes pattern(std::size_t size, int seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  }
  return bytes;
}

TEST(Link, ReportsZeroWhenItWouldBlock) {
  auto [a, b] = socket_pair();
  Link link(std::move(a), 3, "node7");
  Bytes buffer(10);
  const auto got = link.receive_some(buffer);
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(got.value(), 0U);
  const Bytes chunk(1 << 16);
  std::size_t last = 1;
  while (last != 0) {
    const auto sent = link.send_some(chunk);
    ASSERT_TRUE(sent.is_ok());
    last = sent.value();
  }
}

TEST(Link, NamesPeerAndHostWhenThePeerIsGone) {
  auto [a, b] = socket_pair();
  Link link(std::move(a), 3, "node7");
  b.reset();
  Bytes buffer(10);
  const auto got = link.receive_some(buffer);
  EXPECT_EQ(got.status().code(), Code::kPeerLost);
  EXPECT_NE(got.status().message().find("rank 3 on node7"), std::string::npos);
  EXPECT_EQ(link.send_some(buffer).status().code(), Code::kPeerLost);
}

TEST(Link, DoesNotBlameThePeerForMemoryOfOurs) {
  auto [a, b] = socket_pair();
  Link link(std::move(a), 3, "node7");
  constexpr std::size_t kPage = 4096;
  void* const closed = ::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  const auto sent = link.send_some({static_cast<const std::byte*>(closed), 10});
  EXPECT_EQ(sent.status().code(), Code::kSystem);
  EXPECT_NE(sent.status().message().find("tensor"), std::string::npos);
  ::munmap(closed, kPage);
}

TEST(Link, ReceivingNothingIsNotEndOfFile) {
  auto [a, b] = socket_pair();
  Link link(std::move(a), 0, "h");
  const auto got = link.receive_some({});
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(got.value(), 0U);
}

TEST(MessageLink, CarriesMessagesOfEverySizeInOrder) {
  auto [a, b] = socket_pair();
  MessageLink sender(std::make_unique<Link>(std::move(a), 1, "h"));
  MessageLink receiver(std::make_unique<Link>(std::move(b), 0, "h"));
  const std::vector<std::size_t> sizes = {0, 1, 3, 65535, 65536, 65537, 3'000'000, 0, 5};
  int seed = 0;
  for (const std::size_t size : sizes) ASSERT_TRUE(send(sender, pattern(size, seed++)).is_ok());
  EXPECT_TRUE(sender.has_unsent());
  for (std::size_t next = 0; next < sizes.size();) {
    ASSERT_TRUE(sender.flush().is_ok());
    auto message = receiver.receive();
    ASSERT_TRUE(message.is_ok()) << message.status().message();
    if (!message.value()) continue;
    EXPECT_EQ(*message.value(), pattern(sizes[next], static_cast<int>(next)));
    ++next;
  }
  EXPECT_FALSE(sender.has_unsent());
}

TEST(MessageLink, GivesUpAPeerThatNeverReads) {
  auto [a, b] = socket_pair();
  MessageLink sender(std::make_unique<Link>(std::move(a), 6, "node3"));
  const Bytes message = pattern(1 << 20, 1);
  Status status;
  std::size_t messages = 0;
  while (messages < 1000 && (status = send(sender, message)).is_ok()) ++messages;
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_NE(status.message().find("rank 6 on node3 does not read: 64 MiB"), std::string::npos)
      << status.message();
  EXPECT_LE(sender.unsent_bytes(), MessageLink::kMaxUnsentBytes + message.size() + 4);
  EXPECT_GE(messages, MessageLink::kMaxUnsentBytes / message.size());
}

TEST(MessageLink, TakesMoreOnceThePeerHasRead) {
  auto [a, b] = socket_pair();
  MessageLink sender(std::make_unique<Link>(std::move(a), 6, "node3"));
  MessageLink receiver(std::make_unique<Link>(std::move(b), 0, "h"));
  const Bytes message = pattern(8 << 20, 1);
  std::size_t sent = 0;
  while (send(sender, message).is_ok()) ++sent;
  for (std::size_t received = 0; received < sent;) {
    ASSERT_TRUE(sender.flush().is_ok());
    const auto got = receiver.receive();
    ASSERT_TRUE(got.is_ok()) << got.status().message();
    received += got.value() ? 1 : 0;
  }
  EXPECT_EQ(sender.unsent_bytes(), 0U);
  EXPECT_TRUE(send(sender, message).is_ok());
}

TEST(MessageLink, KeepsShortMessagesThatWaitTogether) {
  auto [a, b] = socket_pair();
  MessageLink sender(std::make_unique<Link>(std::move(a), 1, "h"));
  MessageLink receiver(std::make_unique<Link>(std::move(b), 0, "h"));
  ASSERT_TRUE(send(sender, pattern(1 << 20, 0)).is_ok());  // more than the kernel takes
  int seed = 0;
  for (; seed < 20'000; ++seed) {
    const auto size = static_cast<std::size_t>(seed % 40);
    ASSERT_TRUE(send(sender, pattern(size, seed)).is_ok());
  }
  for (int next = -1; next < seed;) {
    ASSERT_TRUE(sender.flush().is_ok());
    auto message = receiver.receive();
    ASSERT_TRUE(message.is_ok()) << message.status().message();
    if (!message.value()) continue;
    if (next >= 0) {
      ASSERT_EQ(*message.value(), pattern(static_cast<std::size_t>(next % 40), next));
    }
    ++next;
  }
}

TEST(MessageLink, RefusesALengthBeyondTheLimit) {
  auto [a, b] = socket_pair();
  MessageLink receiver(std::make_unique<Link>(std::move(b), 4, "h"));
  Link raw(std::move(a), 0, "h");
  ByteWriter prefix;
  prefix.put(static_cast<std::uint32_t>(MessageLink::kMaxMessageBytes + 1));
  ASSERT_TRUE(raw.send_some(prefix.bytes()).is_ok());
  const auto message = receiver.receive();
  EXPECT_EQ(message.status().code(), Code::kInternal);
  EXPECT_NE(message.status().message().find("rank 4"), std::string::npos);
}

TEST(MessageLink, DeliversWhatArrivedBeforeThePeerLeft) {
  auto [a, b] = socket_pair();
  MessageLink receiver(std::make_unique<Link>(std::move(b), 4, "h"));
  {
    MessageLink sender(std::make_unique<Link>(std::move(a), 1, "h"));
    ASSERT_TRUE(send(sender, pattern(9, 1)).is_ok());
  }
  auto message = receiver.receive();
  ASSERT_TRUE(message.is_ok());
  ASSERT_TRUE(message.value().has_value());
  EXPECT_EQ(message.value()->size(), 9U);
  EXPECT_EQ(receiver.receive().status().code(), Code::kPeerLost);
}

}  // namespace
}  // namespace hvd
