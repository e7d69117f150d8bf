// SPDX-License-Identifier: Apache-2.0
#include "plane_values.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "hvd/rows.hpp"

namespace hvd_test {
namespace {

int number_of(const char* first, const char* second, int otherwise) {
  for (const char* name : {first, second}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

constexpr std::array<std::size_t, 7> kSizes = {0, 1, 7, 1'021, 5'000, 70'001, 700'003};

/// Whole numbers that float32 sums exactly, different in every place.
std::int64_t value_at(int rank, std::size_t i) {
  return static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(rank) * 31) % 1'000);
}

std::string difference(const std::string& name, std::size_t i, double got, double wanted) {
  return name + "[" + std::to_string(i) + "] is " + std::to_string(got) + ", not " +
         std::to_string(wanted);
}

std::string wrong_sum(const std::string& prefix, std::size_t count) {
  const std::string name = prefix + "sum" + std::to_string(count);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(value_at(hvd_rank(), i));
  }
  hvd::allreduce<float>(name, values, HVD_SUM);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < hvd_size(); ++rank) sum += value_at(rank, i);
    if (values[i] != static_cast<float>(sum)) {
      return difference(name, i, static_cast<double>(values[i]), static_cast<double>(sum));
    }
  }
  return {};
}

std::string wrong_broadcast(const std::string& prefix, std::size_t count, int root) {
  const std::string name = prefix + "broadcast" + std::to_string(count);
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at(hvd_rank(), i);
  hvd::broadcast<std::int64_t>(name, values, root);
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != value_at(root, i)) {
      return difference(name, i, static_cast<double>(values[i]),
                        static_cast<double>(value_at(root, i)));
    }
  }
  return {};
}

/// Rank r gives r % 3 times `count` rows.
std::string wrong_allgather(const std::string& prefix, std::size_t count) {
  const std::string name = prefix + "allgather" + std::to_string(count);
  const auto rows_of = [&](int rank) { return static_cast<std::size_t>(rank % 3) * count; };
  std::vector<std::int32_t> mine(rows_of(hvd_rank()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = static_cast<std::int32_t>(value_at(hvd_rank(), i));
  }
  const auto gathered = hvd::allgather<std::int32_t>(name, mine);
  std::size_t place = 0;
  for (int rank = 0; rank < hvd_size(); ++rank) {
    for (std::size_t i = 0; i < rows_of(rank); ++i, ++place) {
      if (place >= gathered.values.size() || gathered.values[place] != value_at(rank, i)) {
        return difference(name, place, -1, static_cast<double>(value_at(rank, i)));
      }
    }
  }
  return place == gathered.values.size() ? "" : name + " has more rows than were given";
}

}  // namespace

int launched_rank() { return number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK", -1); }

void live_on_virtual_nodes(int nodes) {
  const int size = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
  ::setenv("HVD_VIRTUAL_NODE", std::to_string(launched_rank() * nodes / size).c_str(), 1);
}

std::string wrong_values(const std::string& prefix) {
  for (const std::size_t count : kSizes) {
    std::string wrong = wrong_sum(prefix, count);
    for (int root = 0; wrong.empty() && root < hvd_size(); ++root) {
      wrong = wrong_broadcast(prefix, count, root);
    }
    if (wrong.empty()) wrong = wrong_allgather(prefix, count);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace hvd_test
