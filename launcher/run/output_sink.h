// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace hvd {

/// A descriptor to write to; the last sink that holds it closes it, if it is ours.
struct SinkTarget {
  explicit SinkTarget(int shared) : fd(shared) {}
  explicit SinkTarget(std::string file) : path(std::move(file)) {}
  /// Opens the file, the first time empty, if it is not open; an error number or 0.
  int open();
  /// Closes the file, of a shared descriptor a copy: what network file systems could not store they
  /// may report here alone. An error number or 0.
  int close();

  int fd = -1;       ///< -1: the file is not open.
  std::string path;  ///< Empty: a descriptor of ours and others.
  UniqueFd file;
  bool was_open = false;  ///< It is never emptied again.
};

/// Writes in a thread of its own, in order, so that a reader that reads nothing, or a file system
/// that hangs, holds up this thread alone: also opening and closing a file may take for ever. A
/// descriptor that we share with others cannot be made non-blocking, and a regular file never is.
/// Thread-safe.
class OutputSink {
 public:
  /// `wake`: an eventfd that becomes readable when the sink has room again, is empty, or failed.
  explicit OutputSink(std::shared_ptr<UniqueFd> wake);
  /// Leaves the thread where it is when its write does not return.
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  /// Takes the text, whatever waits already. The first call starts the thread: not before a fork.
  void add(const std::shared_ptr<SinkTarget>& target, const std::string& text);
  /// Closes a file after what was added; it is opened again where more comes.
  void close(const std::shared_ptr<SinkTarget>& target);
  /// So much waits that its sources had better wait too.
  bool is_full() const { return waiting() >= kFull; }
  /// All was written, or could not be.
  bool is_empty() const;
  /// It is empty, and has no failure that was not taken.
  bool is_done() const;
  /// Bytes that are not written yet.
  std::size_t waiting() const;
  /// Writes that are over: where it does not grow, the place takes nothing.
  std::size_t finished() const;

  struct Failure {
    std::shared_ptr<SinkTarget> target;
    int error_number = 0;  ///< 0: none.
  };
  /// The first failed write, or closing, since the last call.
  Failure take_failure();

 private:
  static constexpr std::size_t kFull = std::size_t{1024} * 1024;
  struct Piece {
    std::shared_ptr<SinkTarget> target;
    std::string text;
    bool closes = false;
  };
  struct State {
    mutable std::mutex mutex;
    std::condition_variable change;
    std::deque<Piece> queue;
    std::size_t waiting = 0;  ///< Bytes in the queue and in the write under way.
    std::size_t finished = 0;
    bool is_writing = false;
    Failure failure;
    bool is_over = false;
    std::shared_ptr<UniqueFd> wake;
  };
  static void write_on(State& state);
  void start_thread();

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace hvd
