// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/thread_world.h"
#include "engine/engine.h"

namespace hvd {

/// A job whose ranks are threads of this process: real engines, boards, bells and links.
class World {
 public:
  explicit World(std::vector<int> node_sizes, const EngineOptions& options = quick_options());
  ~World();

  static EngineOptions quick_options();
  /// Of each rank's arena.
  static constexpr std::size_t kArenaBytes = std::size_t{16} << 20;

  int size() const { return static_cast<int>(engines_.size()); }
  Engine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  /// Runs body(rank, engine) on a thread for each rank and joins them.
  void run(const std::function<void(int rank, Engine& engine)>& body);
  /// Destroys the engine of `rank` without shutdown, as if its process had ended.
  void kill(int rank) { engines_[static_cast<std::size_t>(rank)].reset(); }
  /// The engine of `rank`, from now on the caller's.
  EnginePtr take(int rank) { return std::move(engines_[static_cast<std::size_t>(rank)]); }

 private:
  std::vector<EnginePtr> engines_;
};

/// A deadline no healthy test meets.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

/// A request for one float32 tensor in place.
Request allreduce_request(std::string name, std::vector<float>& values,
                          Allreduce operation = Allreduce{});
/// Holds the thread of an engine in a callback: nothing moves until go_on(), unless a caller waits.
/// On all ranks at once.
class HeldEngine {
 public:
  explicit HeldEngine(Engine& engine);
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;
  ~HeldEngine();
  /// Once.
  void go_on() { may_go_on_.set_value(); }

 private:
  Engine& engine_;
  std::vector<float> values_{1.0F};
  std::promise<void> held_;
  std::promise<void> may_go_on_;
  Engine::Handle handle_ = 0;
};

/// Submits, waits and forgets; every second time of a thread in one call.
Status run_request(Engine& engine, Request request);
/// Submits and waits, as the C interface does: by the request that was kept under the key, which is
/// the same except for the memory of its one tensor, if there is one.
Status run_again(Engine& engine, std::string_view key_text, Request request, Deadline deadline,
                 Engine::Handle& handle);

}  // namespace hvd
