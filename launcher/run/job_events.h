// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <set>
#include <string_view>

namespace hvd {

/// One thing that has happened in a job.
struct JobEvent {
  enum class Kind : int {
    kLaunched,  ///< `index` processes are started; `value` is 1 where one of them is an srun.
    kStarted,   ///< All ranks are in hvd.init(); of an srun: the step `text` has started.
    kEnded,     ///< Process `index` has ended with `value`, as waitpid gives it.
    kLeft,      ///< The ranks have ended, and `index` processes below them have not; one is `text`.
  };
  Kind kind = Kind::kLaunched;
  int index = 0;
  int value = 0;
  std::array<char, 64> text{};

  std::string_view text_view() const { return text.data(); }
};

/// Writes them to a pipe of whoever has started this hvdrun as a child; without one does nothing.
/// Not thread-safe.
class JobEvents {
 public:
  JobEvents() = default;
  /// `pipe` outlives this.
  explicit JobEvents(int pipe) : pipe_(pipe) {}

  bool is_watched() const { return pipe_ >= 0; }
  void launched(int processes, bool is_by_srun);
  /// A rank says whom it has lost; see LossPipe.
  void rank_said(int rank, int lost);
  void step_started(std::string_view step);
  void ended(int index, int status);
  /// Of the processes below `keeper`, whose ranks have ended. Those that end within half a second,
  /// as helpers do that read a pipe to its end, are not counted.
  void look_for_left(pid_t keeper);

 private:
  void write(JobEvent::Kind kind, int index, int value, std::string_view text = "") const;

  int pipe_ = -1;
  int processes_ = 0;
  std::set<int> started_;
};

}  // namespace hvd
