// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

/// What TcpStore and TcpStoreServer say to each other, each in a length-prefixed frame.
namespace hvd::store_message {

inline constexpr std::size_t kMaxRequestBytes = (std::size_t{1} << 20) + 4096;
inline constexpr std::size_t kMaxReplyBytes = std::size_t{256} << 20;
inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::int32_t kNobody = -1;
/// Seconds after which who attends a process ends it where the store's host does not answer; before
/// the store takes the process for gone, and gives its rank away.
inline constexpr int kSilenceOfServer = 4;
inline constexpr int kSilenceOfClient = 6;

enum class Verb : std::uint8_t {
  kSet = 1,
  kWait = 2,
  kGather = 3,
  kJoin = 4,   ///< As kGather; begins an attempt to start with all that join.
  kFail = 5,   ///< The attempt, or the meeting before it, has failed at this rank.
  kWatch = 6,  ///< Answered when the attempt fails, or before the client's next request.
  kEnter = 7,  ///< A process of an elastic job asks for a Place; answered when it has one.
  /// The hvdrun beside such a process attends it: answered when it is to kill the process, or
  /// before the client's next request.
  kAttend = 8,
  kEnded = 9,  ///< The process that the client attends has ended.
  /// Answered when processes wait for a place that the membership at work has free.
  kAwaitNewcomers = 10,
};

struct Request {
  Verb verb = Verb::kSet;
  std::string key = {};    ///< The round for kGather and kJoin; the host for kAttend.
  std::string value = {};  ///< Of kSet, kGather and kJoin; the cause for kFail; of kEnter the node;
                           ///< of kEnded what is behind the end, for people.
  std::string who = {};    ///< The process that joins, for people; the same as long as it lives.
  Code code = Code::kOk;   ///< Of kFail.
  std::int32_t rank = 0;   ///< From kEnter on the number of the process.
  std::int32_t size = 0;
  std::uint64_t timeout_ms = 0;
  std::uint64_t epoch = 0;  ///< That of the Place, for kEnter of the last one; 0: there is none.
  /// Of kEnter: the rank that this one lost in the membership `epoch`; negative: none. Of kEnded:
  /// as waitpid gives it.
  std::int32_t status = kNobody;
};

Bytes encode(const Request& request);
Result<Request> decode_request(std::span<const std::byte> bytes);

/// A reply: the code, then the message of a failure, or one value (kWait), or all (kGather).
struct Reply {
  Code code = Code::kOk;
  std::string text;
  std::vector<std::string> values = {};
};

/// What a process of an elastic job is in one membership: the value of the reply to kEnter.
struct Place {
  std::uint64_t epoch = 0;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 1;
  std::uint8_t at_work = 0;  ///< 1: the ranks of an earlier membership have met.
};

std::string encode(const Place& place);
Result<Place> decode_place(std::string_view bytes);

inline Reply reply_of(const Status& status) {
  return {.code = status.code(), .text = status.message(), .values = {}};
}

Bytes encode(const Reply& reply);
Result<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace hvd::store_message
