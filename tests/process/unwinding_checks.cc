// SPDX-License-Identifier: Apache-2.0
// Run by N ranks: an exception takes rank 1 out of a training step, at every point of it. Memory
// that ends with the scope must not be touched any more, and the others must be told whom to blame.
//
// unwinding_checks points | pending | destroy | forks: pending and destroy take the 10 s that
// owners wait.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"
#include "world/vanishing.h"

namespace {

constexpr int kThrower = 1;
constexpr int kSteps = 2;

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

struct Injected : std::runtime_error {
  Injected() : std::runtime_error("injected") {}
};

/// Counts the points of a step, and throws at one of them.
class Points {
 public:
  explicit Points(int thrown = std::numeric_limits<int>::max()) : thrown_(thrown) {}
  void pass() {
    if (passed_++ == thrown_) throw Injected();
  }
  int passed() const { return passed_; }

 private:
  int thrown_;
  int passed_ = 0;
};

struct Model {
  hvd::Vanishing weight{50'000}, weight_gradient{50'000}, bias{7}, bias_gradient{7};
  hvd::Vanishing scale{1'000}, scale_gradient{1'000};

  std::vector<hvd::Parameter> parameters() const {
    return {{"weight", weight.values(), weight_gradient.values(), {200, 250}},
            {"bias", bias.values(), bias_gradient.values()},
            {"scale", scale.values(), scale_gradient.values(), {10, 100}}};
  }
};

void train(const hvd::OptimizerOptions& options, Points& points) {
  const Model model;
  hvd::broadcast(model.parameters(), 0);
  hvd::DistributedOptimizer optimizer(model.parameters(), hvd::Sgd{}, options);
  for (int step = 0; step < kSteps; ++step) {
    for (int pass = 0; pass < options.passes_per_step; ++pass) {
      for (std::size_t i = 0; i < 3; ++i) {
        for (float& gradient : optimizer.parameters()[i].gradients) gradient += 1;
        points.pass();
        optimizer.gradient_ready(i);
      }
    }
    points.pass();
    optimizer.synchronize();
    points.pass();
    optimizer.step();
  }
}

/// A local step whose second parameter cannot be read: step() throws when the first is under way.
void fail_in_a_local_step(Points&) {
  const Model model;
  auto parameters = model.parameters();
  parameters[1].values = {static_cast<float*>(nullptr), parameters[1].values.size()};
  const bool is_thrower = hvd_rank() == kThrower;
  hvd::DistributedOptimizer optimizer(is_thrower ? parameters : model.parameters(), hvd::Sgd{},
                                      {.difference_op = HVD_SUM});
  optimizer.step();
  if (is_thrower) expect(false, "a local step of values that are null was taken");
}

/// Another backward pass than the optimizer waits for.
void fail_by_a_pass_too_many(Points&) {
  const Model model;
  hvd::DistributedOptimizer optimizer(model.parameters(), hvd::Sgd{});
  optimizer.gradient_ready(0);
  if (hvd_rank() == kThrower) optimizer.gradient_ready(0);
  optimizer.step();
}

/// Works on what is in flight for a moment, as a program that goes on would: it shows what still
/// touches memory that has vanished.
void go_on() {
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.name = "alone";
  request.kind = HVD_BARRIER;
  hvd_handle handle = 0;
  if (hvd_submit(&request, &handle) != HVD_OK) return;
  hvd_wait(handle, 0.02);
  hvd_release(handle);
}

/// A job of its own: what the thrower leaves, and what the others are told.
void run(const std::string& name, Points points, const std::function<void(Points&)>& body) {
  int rank = -1;
  try {
    const hvd::Context job;
    rank = job.rank();
    Points never;
    try {
      body(rank == kThrower ? points : never);
    } catch (const std::exception&) {
      if (rank == kThrower) go_on();
      throw;
    }
    // Steps that the thrower had finished may be whole here; it does not come to this one.
    if (rank == kThrower) return expect(false, name + ": nothing was thrown");
    hvd::barrier();
    expect(false, name + ": a rank was lost, and nobody was told");
  } catch (const Injected&) {
    expect(rank == kThrower, name + ": on rank " + std::to_string(rank));
  } catch (const hvd::Error& failure) {
    const std::string text = failure.what();
    if (rank == kThrower) return;
    expect(failure.status() == HVD_PEER_LOST &&
               text.find("rank " + std::to_string(kThrower) + " on host") != std::string::npos &&
               text.find("an exception left") != std::string::npos,
           name + ": " + text);
  }
}

void check_points() {
  hvd::OptimizerOptions passes{.passes_per_step = 2, .mean_over_passes = true};
  const std::vector<std::pair<std::string, hvd::OptimizerOptions>> ways = {
      {"plain", {}},
      {"passes", passes},
      {"clipped", {.clip_norm = 1}},
      {"top-k", {.compression = {.method = HVD_COMPRESS_TOP_K}}},
      {"PowerSGD", {.compression = {.method = HVD_COMPRESS_POWER_SGD}}},
      {"Adasum", {.difference_op = HVD_ADASUM}},
  };
  for (const auto& [name, options] : ways) {
    const int points = kSteps * (3 * options.passes_per_step + 2);
    for (int point = 0; point < points; ++point) {
      const auto body = [&options = options](Points& where) { train(options, where); };
      run(name + " at point " + std::to_string(point), Points(point), body);
    }
  }
  run("a local step", Points(), fail_in_a_local_step);
  run("a pass too many", Points(), fail_by_a_pass_too_many);
}

/// The thrower leaves what nobody else submits; the owner gives up, and the others are told.
void leave_pending(Points& points) {
  const hvd::Vanishing values(1'000);
  if (hvd_rank() != kThrower) return;
  const hvd::Pending sum = hvd::allreduce_async<float>("alone", values.values(), values.values());
  Points(0).pass();
  points.pass();
}

void destroy_in_a_step() {
  const hvd::Context job;
  {
    const Model model;
    hvd::DistributedOptimizer optimizer(model.parameters(), hvd::Sgd{});
    if (job.rank() == kThrower) optimizer.gradient_ready(1);
  }
  try {
    hvd::barrier();
    expect(false, "a rank left a step alone, and nobody was told");
  } catch (const hvd::Error& failure) {
    const std::string text = failure.what();
    expect(failure.status() == HVD_PEER_LOST &&
               text.find("rank " + std::to_string(kThrower) + " on host") != std::string::npos &&
               text.find("in the middle of a step") != std::string::npos,
           text);
  }
}

/// True in a child, forked where the step is in flight, which leaves what its parent owns.
bool step_with_a_child(bool is_thrown) {
  std::vector<float, hvd::SharedAllocator<float>> shared(100, 1);
  const Model model;
  hvd::DistributedOptimizer optimizer(model.parameters(), hvd::Sgd{.learning_rate = 1});
  for (const hvd::Parameter& one : optimizer.parameters()) {
    std::fill(one.gradients.begin(), one.gradients.end(), 1.0F);
  }
  optimizer.gradient_ready(0);
  hvd::Pending sum = hvd::allreduce_async<float>("shared", shared, shared, HVD_SUM);
  if (hvd_rank() == kThrower) {
    const pid_t child = ::fork();
    if (child == 0 && is_thrown) throw Injected();
    if (child == 0) return true;
    int status = -1;
    ::waitpid(child, &status, 0);
    expect(status == 0, "the child ended with status " + std::to_string(status));
  }
  optimizer.gradient_ready(1);
  optimizer.gradient_ready(2);
  optimizer.step();
  sum.wait();
  expect(shared[99] == static_cast<float>(hvd_size()), "a sum with a child: wrong");
  expect(optimizer.parameters()[1].values[6] == -1, "a step with a child: wrong");
  return false;
}

void fork_in_steps() {
  for (const bool is_thrown : {false, true}) {
    const pid_t parent = ::getpid();
    try {
      const hvd::Context job;
      const bool is_child = step_with_a_child(is_thrown);
      if (!is_child) hvd::barrier();
    } catch (const Injected&) {
      expect(::getpid() != parent, "a rank threw");
    }
    if (::getpid() != parent) std::exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "points";
  try {
    if (which == "points") check_points();
    if (which == "pending") run("pending", Points(), leave_pending);
    if (which == "destroy") destroy_in_a_step();
    if (which == "forks") fork_in_steps();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unwinding_checks: %s\n", failure.what());
    return 1;
  }
}
