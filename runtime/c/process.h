// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "c/settings.h"
#include "engine/engine.h"

namespace hvd {

/// The process's own Engine and what forks and exits do to it. The one mutable global of libhvd:
/// allocated once and never destroyed, so that threads that outlive main() find it whole.
/// Thread-safe.
class Process {
 public:
  static Process& instance();

  /// Wires the job and starts the engine. Already running: ok.
  Status start(const Environment& environment, const Settings& settings);
  /// Stops the engine; none: ok.
  Status stop(Deadline deadline);
  /// Tells the other ranks that this one ends because of `cause`; no engine: nothing.
  void abort(const std::string& cause);
  /// What the others are told if the program fails.
  void set_farewell(const std::string& cause);
  /// At the end of the program: leaves the job, or tells the others why it failed.
  void end(int exit_code);
  /// In a forked child too, as identity() is.
  bool is_running() const;
  /// See hvd_came_late(). False while another thread starts or stops this process.
  bool came_late();
  /// See hvd_has_newcomers(). False while another thread starts or stops this process.
  bool has_newcomers();
  /// The process is the child of a rank: it has a copy of the engine's memory, none of its threads,
  /// and shares what the ranks have mapped. It must leave the engine alone.
  bool is_forked_child() const;
  /// Memory that the ranks of this node share; see hvd_alloc().
  Result<void*> allocate(std::size_t bytes);
  /// Also after stop(). kInvalidArgument: not from allocate().
  Status deallocate(void* memory);
  /// The running engine, shared with the caller for the time of a call so that a concurrent stop()
  /// destroys it only after the call. kAborted with what to do: not initialised, or a forked child.
  Result<std::shared_ptr<Engine>> engine() const;
  /// To ask who this rank is. In a forked child the engine of its parent, of which only what never
  /// changes may be used: world(). kAborted: not initialised.
  Result<std::shared_ptr<const Engine>> identity() const;

 private:
  struct State;
  Process();
  State* state_;  // leaked with the Process
};

}  // namespace hvd
