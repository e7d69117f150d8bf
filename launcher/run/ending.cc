// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/ending.h"

#include <csignal>

#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kTermToKill{5};
constexpr std::chrono::seconds kSameSignal{1};

}  // namespace

bool Ending::rank_failed(int exit_code, Clock::time_point now) {
  if (failed_ || told_) return false;
  failed_ = true;
  exit_code_ = exit_code;
  enter(Stage::kGrace, Deadline::at(now + grace_));
  return true;
}

std::optional<int> Ending::lost_reader(Clock::time_point now) {
  if (failed_ || told_) return std::nullopt;
  return told_to_end(SIGTERM, now);
}

std::optional<int> Ending::told_to_end(int signal, Clock::time_point now) {
  if (!failed_ && !told_) exit_code_ = exit_code_of_signal(signal);
  if (told_) {
    if (signal == SIGHUP || now - told_at_ < kSameSignal) return std::nullopt;
    enter(Stage::kKilled, kForever);
    return SIGKILL;
  }
  told_ = true;
  told_at_ = now;
  // After SIGINT a program may clean up for the whole grace; SIGTERM follows.
  if (signal == SIGTERM) {
    enter(Stage::kTerminated, Deadline::at(now + grace_));
  } else {
    enter(Stage::kGrace, Deadline::at(now + grace_));
  }
  return signal;
}

std::optional<int> Ending::advance(Clock::time_point now) {
  if (next_.is_forever() || now < next_.time()) return std::nullopt;
  if (stage_ == Stage::kGrace) {
    enter(Stage::kTerminated, Deadline::at(now + kTermToKill));
    return SIGTERM;
  }
  enter(Stage::kKilled, kForever);
  return SIGKILL;
}

void Ending::was_stopped(Clock::duration duration) {
  if (!next_.is_forever()) next_ = Deadline::at(next_.time() + duration);
}

}  // namespace hvd
