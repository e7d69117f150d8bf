// SPDX-License-Identifier: Apache-2.0
// Each algorithm between nodes over real links, whatever would be selected: the same bits from all.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/lanes/lane_reduce_plan.h"
#include "backends/tcp/tcp_backend.h"
#include "backends/tcp/tcp_links.h"
#include "thread_ranks.h"

namespace hvd {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16};

/// The parts of a backend over nodes, without its choices.
struct Lane {
  explicit Lane(ThreadRank& rank)
      : context{.communicator = rank.communicator,
                .memory = rank.wiring.node.memory,
                .doorbell = rank.wiring.node.doorbell.get(),
                .lane = links_of(rank),
                .lanes = rank.wiring.lanes,
                .sockets = rank.wiring.sockets},
        plane(context.memory, rank.communicator.local_rank, rank.communicator.local_size(),
              context.doorbell),
        lanes(context, make_tcp_links(context)) {}

  static std::vector<Link*> links_of(const ThreadRank& rank) {
    std::vector<Link*> links;
    for (const auto& link : rank.wiring.lane) links.push_back(link.get());
    return links;
  }

  BackendContext context;
  NodePlane plane;
  LaneSet lanes;
};

/// An allreduce of so many bytes, of values whose sum depends on the association.
std::vector<std::byte> reduce(ThreadRank& rank, Lane& lane, NodeAlgorithm algorithm, DataType dtype,
                              std::size_t count) {
  const Allreduce operation{.op = ReduceOp::kSum, .prescale = 1.0, .postscale = 0.75};
  std::vector<std::byte> data(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = std::ldexp(1.0F + 0.37F * static_cast<float>((i + 3) % 5),
                                   (rank.communicator.rank * 5 + static_cast<int>(i)) % 9);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (dtype == DataType::kFloat32) std::memcpy(data.data() + 4 * i, &bits, 4);
    const auto high = static_cast<std::uint16_t>(bits >> 16);
    if (dtype == DataType::kBfloat16) std::memcpy(data.data() + 2 * i, &high, 2);
  }
  Batch batch{.operation = operation,
              .dtype = dtype,
              .device = {},
              .segments = {{data.data(), data.data(), count}},
              .allocate = {}};
  auto plan = plan_lane_reduce(lane.lanes, std::move(batch),
                               Reduction::of(operation, dtype, rank.communicator.size), algorithm);
  EXPECT_TRUE(plan.is_ok());
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.push_back(make_lane_reduce_task(lane.plane, lane.lanes, std::move(plan).value()));
  finish(tasks);
  return data;
}

void check_all(ThreadRank& rank) {
  Lane lane(rank);
  for (const DataType dtype : kTypes) {
    for (const std::size_t count : {1, 5, 90'001}) {
      const auto expected = reduce(rank, lane, NodeAlgorithm::kDirect, dtype, count);
      for (const auto algorithm :
           {NodeAlgorithm::kRecursiveDoubling, NodeAlgorithm::kHalvingDoubling,
            NodeAlgorithm::kPairwise, NodeAlgorithm::kTree}) {
        EXPECT_TRUE(reduce(rank, lane, algorithm, dtype, count) == expected)
            << name_of(algorithm) << " of " << count << " " << name_of(dtype) << " on rank "
            << rank.communicator.rank;
      }
    }
  }
}

TEST(LaneAlgorithms, GiveTheSameBits) {
  for (const std::vector<int>& nodes :
       {std::vector<int>{1, 1}, std::vector<int>{2, 1, 3}, std::vector<int>{1, 1, 1, 1, 1}}) {
    SCOPED_TRACE(shape_text(nodes));
    run_ranks(kTcpBackend, nodes, check_all);
  }
}

TEST(LaneAlgorithms, InPlaceKeepWhatTheyStillSend) {
  run_ranks(kTcpBackend, {1, 1}, [](ThreadRank& rank) {
    const int bytes = 4096;  // Much less than a piece: what the other one sends comes earlier.
    for (const auto& link : rank.wiring.lane) {
      if (link == nullptr || rank.communicator.rank != 0) continue;
      ::setsockopt(link->fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
    Lane lane(rank);
    constexpr std::size_t kCount = 300'001;
    const auto parts = reduce(rank, lane, NodeAlgorithm::kPairwise, DataType::kFloat32, kCount);
    for (int i = 0; i < 10; ++i) {
      const auto direct = reduce(rank, lane, NodeAlgorithm::kDirect, DataType::kFloat32, kCount);
      ASSERT_TRUE(direct == parts) << "on rank " << rank.communicator.rank;
    }
  });
}

TEST(LaneAlgorithms, StripeTheirFramesOverSeveralSockets) {
  for (const std::vector<int>& nodes : {std::vector<int>{2, 2}, std::vector<int>{1, 1, 1}}) {
    SCOPED_TRACE(shape_text(nodes));
    run_ranks(kTcpBackend, nodes, check_all, 3);
  }
}

}  // namespace
}  // namespace hvd
