// SPDX-License-Identifier: Apache-2.0
// Run by N ranks: N ranks with batch B must learn what one rank learns with batch N*B, loss by
// loss. Each rank also trains the one-rank reference by itself, without the library. Then two
// process sets train two models at once, each as if it were alone.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "digits_data.h"
#include "hvd/hvd.hpp"
#include "network.h"

namespace {

constexpr std::size_t kBatch = 8;
constexpr int kSteps = 20;
constexpr double kTolerance = 1e-5;

using Chosen = std::vector<std::size_t>;

/// The images of a step: all of them for the reference, a part for a rank.
Chosen chosen(int step, std::size_t first, std::size_t count, std::size_t total) {
  Chosen images(count);
  std::iota(images.begin(), images.end(), static_cast<std::size_t>(step) * total + first);
  return images;
}

std::vector<double> reference(const digits::Set& set, std::size_t ranks, const hvd::Sgd& rule) {
  digits::Network network(32, 7);
  std::vector<std::vector<double>> velocity(digits::Network::kBuffers);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const Chosen images = chosen(step, 0, ranks * kBatch, ranks * kBatch);
    losses.push_back(network.backward(set, images, [](std::size_t) {}));
    for (std::size_t i = 0; i < digits::Network::kBuffers; ++i) {
      velocity[i].resize(network.values(i).size());
      for (std::size_t k = 0; k < velocity[i].size(); ++k) {
        velocity[i][k] = rule.momentum * velocity[i][k] + network.gradients(i)[k];
        network.values(i)[k] -= static_cast<float>(rule.learning_rate * velocity[i][k]);
        network.gradients(i)[k] = 0;
      }
    }
  }
  return losses;
}

std::vector<double> distributed(const hvd::ProcessSet& ranks_of, const digits::Set& set,
                                hvd::Sgd rule) {
  // Another seed on every rank: the broadcast has to make them equal.
  digits::Network network(32, 7 + static_cast<std::uint32_t>(ranks_of.rank()));
  std::vector<hvd::Parameter> parameters;
  for (std::size_t i = 0; i < digits::Network::kBuffers; ++i) {
    parameters.push_back({digits::Network::kNames[i], network.values(i), network.gradients(i)});
  }
  hvd::DistributedOptimizer optimizer(parameters, rule, {.process_set = ranks_of.id()});
  hvd::broadcast(optimizer.parameters(), ranks_of.ranks().front(), ranks_of.id());
  const auto ranks = static_cast<std::size_t>(ranks_of.size());
  const auto rank = static_cast<std::size_t>(ranks_of.rank());
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const Chosen images = chosen(step, rank * kBatch, kBatch, ranks * kBatch);
    double loss = network.backward(set, images,
                                   [&](std::size_t buffer) { optimizer.gradient_ready(buffer); });
    optimizer.step();
    hvd::allreduce("loss", std::span(&loss, 1), HVD_AVERAGE, ranks_of.id());
    losses.push_back(loss);
  }
  return losses;
}

bool agree(const std::string& name, const hvd::ProcessSet& ranks_of, const digits::Set& set,
           const hvd::Sgd& rule) {
  const auto expected = reference(set, static_cast<std::size_t>(ranks_of.size()), rule);
  const auto found = distributed(ranks_of, set, rule);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::fabs(found[i] - expected[i]) / std::fabs(expected[i]));
  }
  const bool learned = expected.back() < 0.75 * expected.front();
  std::printf("%s on %d ranks: loss %.5f -> %.5f, largest relative difference %.2g\n", name.c_str(),
              ranks_of.size(), found.front(), found.back(), worst);
  return worst <= kTolerance && learned;
}

/// Even and odd ranks, by different rules under the same names.
bool sets_agree(const hvd::Context& job, const digits::Set& set) {
  if (job.size() < 2) return true;
  std::vector<std::int32_t> halves[2];
  for (int rank = 0; rank < job.size(); ++rank) halves[rank % 2].push_back(rank);
  const auto evens = hvd::ProcessSet::add(halves[0]);
  const auto odds = hvd::ProcessSet::add(halves[1]);
  if (job.rank() % 2 == 0) return agree("evens", evens, set, {.learning_rate = 0.3});
  return agree("odds", odds, set, {.learning_rate = 0.05, .momentum = 0.9});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const digits::Split split = digits::load(argc > 1 ? argv[1] : "optdigits.csv");
    const hvd::Context job;
    const bool plain = agree("SGD", hvd::ProcessSet(), split.train, {.learning_rate = 0.3});
    const bool momentum =
        agree("momentum", hvd::ProcessSet(), split.train, {.learning_rate = 0.05, .momentum = 0.9});
    const bool sets = sets_agree(job, split.train);
    return plain && momentum && sets ? 0 : 1;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "learning_oracle: %s\n", failure.what());
    return 1;
  }
}
