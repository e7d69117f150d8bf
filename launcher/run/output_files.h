// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/run/output_sink.h"

namespace hvd {

/// `--output-dir`: a file for each stream of each rank, "rank-3.out", in a numbered folder of this
/// run's own: no run loses the files of an earlier one, nor mixes with them. Without a folder it
/// takes nothing. What a full disk does not take is lost, and the first such error kept for the
/// user. A file system that hangs holds up threads of its own alone. Where fewer files may be open
/// than there are, those that were not written for longest are closed, and opened again when more
/// comes. Not thread-safe.
class OutputFiles {
 public:
  /// `wake`: see OutputSink.
  OutputFiles(std::string folder, std::shared_ptr<UniqueFd> wake)
      : folder_(std::move(folder)), wake_(wake), sink_(std::move(wake)) {}

  /// Makes the folder DIR/N of this run, N one above the highest there, lets DIR/latest name it,
  /// and makes the files of `ranks`. Leaves no thread when it returns, unless it failed.
  /// `wait(DESCRIPTOR)`: waits until the descriptor becomes readable, or gives up (false).
  Status start(const std::vector<int>& ranks, const std::function<bool(int)>& wait);
  bool is_wanted() const { return !folder_.empty(); }
  /// Adds to the file of this rank and stream ("out" or "err"); opens it where the rank was not
  /// known before.
  void add(int rank, std::string_view suffix, std::string_view bytes);
  /// So much waits to be written that the ranks had better wait too.
  bool is_full() const { return sink_.is_full(); }
  std::size_t waiting() const { return sink_.waiting(); }
  /// Writes what is left and closes.
  void finish();
  bool is_empty() const { return sink_.is_empty(); }
  /// It is empty, and take_complaint() has seen each failure.
  bool is_done() const { return sink_.is_done(); }
  /// Something was not written.
  bool has_failed() const { return has_complained_; }
  /// What to tell the user since the last call: an error, once, and that nothing could be written
  /// for a while, once.
  std::string take_complaint(Clock::time_point now);
  /// When `take_complaint` may have something even if nothing else happens.
  Deadline next() const;

 private:
  struct File {
    std::shared_ptr<SinkTarget> target;
    std::list<File*>::iterator place = {};  ///< In open_, where it is there.
    bool is_open = false;
  };
  using Files = std::map<std::string, File>;  ///< By path.
  struct Start;
  void use(File& file);

  std::string folder_;
  Files files_;
  std::list<File*> open_;  ///< Those written last come first.
  std::size_t room_ = 0;   ///< So many may be open.
  std::shared_ptr<UniqueFd> wake_;
  OutputSink sink_;
  std::size_t finished_ = 0;  ///< Writes of the sink, when it was last seen to go on.
  std::optional<Clock::time_point> silent_since_;  ///< Nothing: it has nothing to write.
  bool has_complained_ = false;
  bool has_told_of_silence_ = false;
};

}  // namespace hvd
