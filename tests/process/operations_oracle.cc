// SPDX-License-Identifier: Apache-2.0
// Run by N ranks: the C++ functions of reducescatter, reduce, alltoall, gather, scatter and the
// sparse allreduce, among all ranks and among those of process sets.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"

namespace {

using Values = std::vector<float>;

constexpr std::size_t kRowCount = 2;

/// `count` rows that differ by `seed` and by their place from `first` on.
Values rows(int seed, std::size_t count, std::size_t first = 0) {
  Values values(count * kRowCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((first * kRowCount + i + static_cast<std::size_t>(seed)) % 17);
  }
  return values;
}

std::span<const float> view(const Values& values) { return values; }

bool same(const char* what, const Values& got, const Values& expected) {
  if (got == expected) return true;
  std::fprintf(stderr, "%s: %zu values, not the %zu expected ones\n", what, got.size(),
               expected.size());
  return false;
}

void append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

bool check_reductions(const hvd::ProcessSet& set, std::size_t count) {
  Values sum(count * kRowCount);
  for (int rank = 0; rank < set.size(); ++rank) {
    const Values theirs = rows(rank, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
  }
  const Values mine = rows(set.rank(), count);
  const int root = set.ranks().back();
  const bool is_root = set.rank() == set.size() - 1;
  Values reduced(is_root ? mine.size() : 0);
  hvd::reduce("reduce", view(mine), std::span<float>(reduced), root, HVD_SUM, set.id());
  const bool good = !is_root || same("reduce", reduced, sum);

  const auto size = static_cast<std::size_t>(set.size());
  const auto rank = static_cast<std::size_t>(set.rank());
  const std::size_t begin = count / size * rank + std::min(rank, count % size);
  const std::size_t share = count / size + (rank < count % size ? 1 : 0);
  const auto first = sum.begin() + static_cast<std::ptrdiff_t>(begin * kRowCount);
  const Values expected(first, first + static_cast<std::ptrdiff_t>(share * kRowCount));
  const Values scattered =
      hvd::reducescatter("reducescatter", view(mine), HVD_SUM, kRowCount, set.id());
  return same("reducescatter", scattered, expected) && good;
}

/// Rows from rank to rank: r + s from r to s, times `scale`.
bool check_alltoall(const hvd::ProcessSet& set, std::size_t scale) {
  Values sent;
  Values expected;
  std::vector<std::int64_t> splits;
  const auto between = [&](int from, int to) {
    return rows(from * set.size() + to, static_cast<std::size_t>(from + to) * scale);
  };
  for (int other = 0; other < set.size(); ++other) {
    append(sent, between(set.rank(), other));
    append(expected, between(other, set.rank()));
    splits.push_back((set.rank() + other) * static_cast<std::int64_t>(scale));
  }
  const auto received = hvd::alltoall("alltoall", view(sent), splits, kRowCount, set.id());
  return same("alltoall", received.values, expected) &&
         received.rows.back() == static_cast<std::size_t>(set.rank() + set.size() - 1) * scale;
}

bool refuses(const char* what, hvd_status status, const std::function<void()>& call) {
  try {
    call();
  } catch (const hvd::Error& error) {
    if (error.status() == status) return true;
    std::fprintf(stderr, "%s: %s\n", what, error.what());
    return false;
  }
  std::fprintf(stderr, "%s: accepted\n", what);
  return false;
}

bool check_rooted(const hvd::ProcessSet& set, std::size_t scale) {
  Values all;
  std::vector<std::int64_t> splits;
  for (int rank = 0; rank < set.size(); ++rank) {
    append(all, rows(rank, static_cast<std::size_t>(rank) * scale));
    splits.push_back(rank * static_cast<std::int64_t>(scale));
  }
  const Values mine = rows(set.rank(), static_cast<std::size_t>(set.rank()) * scale);
  const int root = set.ranks().front();
  const auto gathered = hvd::gather("gather", view(mine), root, kRowCount, set.id());
  const bool is_root = set.rank() == 0;
  const auto scattered =
      hvd::scatter("scatter", is_root ? view(all) : std::span<const float>(),
                   is_root ? splits : std::vector<std::int64_t>(), root, kRowCount, set.id());
  const auto everywhere = hvd::allgather("allgather", view(mine), kRowCount, set.id());
  Values given(all.size());
  hvd::allgather_into("into", view(mine), std::span<float>(given), kRowCount, set.id());
  const bool is_safe = all.empty() || refuses("short", HVD_INVALID_ARGUMENT, [&] {
                         std::span<float> short_one = std::span(given).first(given.size() - 1);
                         hvd::allgather_into("short", view(mine), short_one, kRowCount, set.id());
                       });
  return is_safe && same("allgather_into", given, all) &&
         same("gather", gathered.values, is_root ? all : Values()) &&
         same("allgather", everywhere.values, all) && same("scatter", scattered.values, mine);
}

/// Each rank has as many rows as its number, with indices that overlap those of its neighbours.
bool check_sparse(const hvd::ProcessSet& set, std::size_t scale) {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> all_indices;
  Values all;
  for (int rank = 0; rank < set.size(); ++rank) {
    const std::size_t count = static_cast<std::size_t>(rank) * scale;
    append(all, rows(rank, count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::int64_t>(i) + rank;
      all_indices.push_back(index);
      if (rank == set.rank()) indices.push_back(index);
    }
  }
  const Values mine = rows(set.rank(), static_cast<std::size_t>(set.rank()) * scale);
  const std::span<const std::int64_t> places = indices;
  const auto sum =
      hvd::sparse_allreduce("sparse", places, view(mine), kRowCount, HVD_SUM, set.id());
  const auto mean =
      hvd::sparse_allreduce("sparse.mean", places, view(mine), kRowCount, HVD_AVERAGE, set.id());
  const bool good = same("sparse sum", sum.values, all) && sum.indices == all_indices;
  for (float& value : all) value /= static_cast<float>(set.size());
  return good && same("sparse average", mean.values, all) && mean.indices == all_indices;
}

bool check_errors(const hvd::ProcessSet& set) {
  const Values values = rows(0, 4);
  const std::vector<std::int64_t> too_many(static_cast<std::size_t>(set.size()) + 1);
  return refuses("splits", HVD_INVALID_ARGUMENT,
                 [&] { hvd::alltoall("x", view(values), too_many, kRowCount); }) &&
         refuses("root", HVD_INVALID_ARGUMENT,
                 [&] { hvd::gather("x", view(values), set.size(), kRowCount); }) &&
         refuses("sparse maximum", HVD_UNSUPPORTED,
                 [&] {
                   const std::vector<std::int64_t> places(4);
                   hvd::sparse_allreduce("x", std::span<const std::int64_t>(places), view(values),
                                         kRowCount, HVD_MAX);
                 }) &&
         refuses("rows", HVD_INVALID_ARGUMENT,
                 [&] { hvd::reducescatter("x", view(values), HVD_SUM, 3); }) &&
         refuses("bits of floats", HVD_UNSUPPORTED,
                 [&] { hvd::reducescatter("x", view(values), HVD_BIT_OR, kRowCount); });
}

bool check_set(const hvd::ProcessSet& set) {
  bool good = true;
  for (const std::size_t count : {0, 1, 7, 50'000}) good = check_reductions(set, count) && good;
  for (const std::size_t scale : {0, 1, 3, 20'000}) {
    good = check_alltoall(set, scale) && good;
    good = check_rooted(set, scale) && good;
    good = check_sparse(set, scale) && good;
  }
  hvd::barrier(set.id());
  return good;
}

/// Sets that part the ranks work side by side, under the same names.
bool check_sets(const hvd::Context& job) {
  std::vector<std::int32_t> halves[2];
  for (int rank = 0; rank < job.size(); ++rank) halves[rank % 2].push_back(rank);
  const auto evens = hvd::ProcessSet::add(halves[0]);
  const auto odds = hvd::ProcessSet::add(halves[1]);
  bool good = check_set(job.rank() % 2 == 0 ? evens : odds);
  const Values values = rows(0, 4);
  const auto& other = job.rank() % 2 == 0 ? odds : evens;
  good = refuses("a set without me", HVD_INVALID_ARGUMENT,
                 [&] { hvd::allgather("x", view(values), kRowCount, other.id()); }) &&
         good;
  evens.remove();
  odds.remove();
  return refuses("a removed set", HVD_INVALID_ARGUMENT,
                 [&] {
                   const std::vector<std::int64_t> places(4);
                   hvd::sparse_allreduce("x", std::span<const std::int64_t>(places), view(values),
                                         kRowCount, HVD_AVERAGE, evens.id());
                 }) &&
         good;
}

/// Each rank runs out of data one use later than the one before it.
bool check_join(const hvd::Context& job) {
  bool good = true;
  for (int use = 0; use <= job.rank(); ++use) {
    Values values(5, 1.0F);
    hvd::allreduce("join", std::span<float>(values), HVD_AVERAGE);
    good = same("average while ranks join", values, Values(5, 1.0F)) && good;
  }
  if (hvd::ProcessSet().join(true) == job.size() - 1) return good;
  std::fprintf(stderr, "the last rank to join is not the last rank\n");
  return false;
}

}  // namespace

int main() {
  try {
    const hvd::Context job;
    bool good = check_set(hvd::ProcessSet());
    if (job.size() > 2) good = check_sets(job) && good;
    good = check_errors(hvd::ProcessSet()) && good;
    good = check_join(job) && good;
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
