// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/timeline/timeline_event.h"

namespace hvd {

/// Events as a Chrome trace: a JSON array of objects, one a line. The process is the rank; each
/// name has a row (a thread), and a further one for each use that overlaps another. Times are those
/// of the steady clock, which the ranks of a node share. Without its end() the text is what viewers
/// read as well, of a program that died.
/// One thread at a time.
class TimelineText {
 public:
  /// Names that get rows of their own; the rest share some.
  static constexpr std::size_t kMostNames = 10'000;

  explicit TimelineText(int rank) : rank_(rank) {}

  /// The first lines; `unix_seconds` is what the wall clock shows at `time`.
  std::string begin(std::string_view host, Clock::time_point time, double unix_seconds) const;
  /// Adds the event's lines to `text`: none for a request whose submission did not come here.
  void append(const TimelineEvent& event, std::string& text);
  /// Adds that `count` requests, waits and batches have been left out so far.
  void append_left_out(std::uint64_t count, Clock::time_point time, std::string& text) const;
  /// Ends what is open, and the array.
  std::string end(std::uint64_t left_out, Clock::time_point time);

 private:
  /// The rows of one name.
  struct Name {
    int rows = 0;
    std::vector<int> free;
  };
  enum class Phase : std::uint8_t { kNegotiate, kQueue, kRun };
  struct Open {
    Name* name = nullptr;
    int row = 0;
    Phase phase = Phase::kNegotiate;
    std::string_view operation;
    std::uint64_t batch = 0;
  };

  void submitted(const TimelineEvent& event, std::string& text);
  void enter(Open& open, Phase phase, Clock::time_point time, std::string& text) const;
  void completed(Open& open, const TimelineEvent& event, std::string& text) const;
  void waited(const TimelineEvent& event, std::string& text);
  void batch(const TimelineEvent& event, std::string& text);
  void leave(Open& open, std::string_view arguments, Clock::time_point time,
             std::string& text) const;
  /// A free row of the name; `text` gets its title where it is new.
  int take_row(Name& name, std::string_view title, std::string& text);
  Name& name_of(const std::string& title);

  int rank_;
  int last_row_ = 0;
  std::uint64_t requests_ = 0;
  std::unordered_map<std::string, Name> names_;  ///< By title. Its elements stay where they are.
  std::map<std::uint64_t, Open> open_;
};

/// `text` as a JSON string, quotes included: valid UTF-8 whatever the bytes are. Pure.
std::string json_string(std::string_view text);

}  // namespace hvd
