// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

using testing::HasSubstr;

Deadline in_time() { return Deadline::after(std::chrono::seconds(10)); }

std::string answer(const std::string& body) { return format_text("{:6}{}", body.size(), body); }

/// A server that has written all its answers before it is asked; what the client asks is read by
/// the test.
class Pmi2ClientTest : public testing::Test {
 protected:
  Pmi2ClientTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    client_.reset(pair[0]);
    server_.reset(pair[1]);
  }
  void say(const std::string& text) {
    ASSERT_EQ(::write(server_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  Result<Pmi2Client> open() {
    return Pmi2Client::open({.fd = client_.get(), .job = "7.0", .rank = 3}, in_time());
  }
  /// A client that has said hello.
  Pmi2Client opened() {
    say("cmd=response_to_init rc=0\n" + answer("cmd=fullinit-response;rc=0;"));
    auto client = open();
    EXPECT_TRUE(client.is_ok()) << client.status().message();
    static_cast<void>(heard());
    return std::move(client).value();
  }
  std::string heard() {
    std::array<char, 65536> buffer{};
    const auto got = ::recv(server_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  UniqueFd client_;
  UniqueFd server_;
};

TEST_F(Pmi2ClientTest, SaysWhoItIs) {
  say("cmd=response_to_init rc=0\n" + answer("cmd=fullinit-response;rc=0;"));
  ASSERT_TRUE(open().is_ok());
  EXPECT_EQ(heard(),
            "cmd=init pmi_version=2 pmi_subversion=0\n    51cmd=fullinit;pmijobid=7.0;"
            "pmirank=3;threaded=FALSE;");
}

TEST_F(Pmi2ClientTest, RefusesAnotherProtocol) {
  say("cmd=response_to_init rc=-1\n");
  EXPECT_THAT(std::string(open().status().message()), HasSubstr("does not speak PMI-2"));
}

TEST_F(Pmi2ClientTest, WaitsForTheRestOfAnAnswer) {
  Pmi2Client client = opened();
  const std::string whole = answer("cmd=kvs-fence-response;rc=0;");
  std::thread server([&] {
    for (const char one : whole) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      say({one});
    }
  });
  EXPECT_TRUE(client.fence(in_time()).is_ok());
  server.join();
}

TEST_F(Pmi2ClientTest, TakesTheLongestAnswer) {
  Pmi2Client client = opened();
  std::string body = "cmd=kvs-get-response;found=TRUE;value=1;flags=";
  body.resize(99'999, 'x');
  std::thread server([&] {
    say(answer(body));
    say(answer("cmd=kvs-get-response;found=TRUE;value=6869;"));
  });
  EXPECT_EQ(client.get("k", in_time()).value_or(""), "hi");
  server.join();
}

TEST_F(Pmi2ClientTest, GoesOnWaitingForAnAnswerThatCameTooLate) {
  Pmi2Client client = opened();
  const auto now = Deadline::after(std::chrono::milliseconds(1));
  EXPECT_EQ(client.fence(now).code(), Code::kTimeout);
  EXPECT_THAT(std::string(client.get("k", in_time()).status().message()),
              HasSubstr("still owes an answer"));
  say(answer("cmd=kvs-fence-response;rc=0;"));
  EXPECT_TRUE(client.fence(in_time()).is_ok());
  EXPECT_EQ(heard(), answer("cmd=kvs-fence;")) << "asked once";
}

TEST_F(Pmi2ClientTest, AnswersThatAreNoneAreErrors) {
  struct Case {
    std::string said;
    std::string error;
  };
  for (const Case& one :
       std::vector<Case>{{"  abc cmd=", "is not a length of an answer"},
                         {"     0", "is not a length of an answer"},
                         {"999999", "PMI-2"},
                         {"100000", "is not a length of an answer"},
                         {answer("cmd=kvs-put-response;rc=0;"), "unexpected answer to kvs-fence"},
                         {answer("rc=0;"), "unexpected answer to kvs-fence"},
                         {answer("cmd=kvs-fence-response;rc=5;"), "refused kvs-fence (rc=5)"}}) {
    Pmi2Client client = opened();
    say(one.said);
    const Status status = client.fence(Deadline::after(std::chrono::milliseconds(200)));
    ASSERT_FALSE(status.is_ok()) << one.said;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.error)) << one.said;
    std::array<char, 4096> rest{};
    static_cast<void>(::recv(client_.get(), rest.data(), rest.size(), MSG_DONTWAIT));
  }
}

TEST_F(Pmi2ClientTest, AServerThatIsGoneIsToldApart) {
  Pmi2Client client = opened();
  server_.reset();
  const Status status = client.fence(in_time());
  ASSERT_FALSE(status.is_ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("PMI-2 server (PMI_FD)"));
}

TEST_F(Pmi2ClientTest, AKeyThatIsMissingIsNamed) {
  Pmi2Client client = opened();
  say(answer("cmd=kvs-get-response;found=FALSE;"));
  EXPECT_THAT(std::string(client.get("k", in_time()).status().message()),
              HasSubstr("'k' is missing"));
}

}  // namespace
}  // namespace hvd
