// SPDX-License-Identifier: Apache-2.0
// The NCCL double computes what NCCL does: types x reductions x ranks against float64.
#include <cmath>
#include <cstring>

#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "unit/doubles/nccl_ranks.h"

namespace {

constexpr std::size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // of ncclDataType_t
using Bytes = std::vector<std::byte>;

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}
template <typename T>
double load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

void put(std::byte* at, ncclDataType_t dtype, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case ncclInt8:
      return store(at, static_cast<std::int8_t>(value));
    case ncclUint8:
      return store(at, static_cast<std::uint8_t>(value));
    case ncclInt32:
      return store(at, static_cast<std::int32_t>(value));
    case ncclUint32:
      return store(at, static_cast<std::uint32_t>(value));
    case ncclInt64:
      return store(at, static_cast<std::int64_t>(value));
    case ncclUint64:
      return store(at, static_cast<std::uint64_t>(value));
    case ncclFloat16:
      return store(at, hvd::float_to_float16(single));
    case ncclFloat32:
      return store(at, single);
    case ncclFloat64:
      return store(at, value);
    case ncclBfloat16:
      return store(at, hvd::float_to_bfloat16(single));
    case ncclFloat8e4m3:
      return store(at, hvd::float_to_float8<hvd::Float8E4m3>(single));
    default:
      return store(at, hvd::float_to_float8<hvd::Float8E5m2>(single));
  }
}

double value_at(const std::byte* at, ncclDataType_t dtype) {
  switch (dtype) {
    case ncclInt8:
      return load<std::int8_t>(at);
    case ncclUint8:
      return load<std::uint8_t>(at);
    case ncclInt32:
      return load<std::int32_t>(at);
    case ncclUint32:
      return load<std::uint32_t>(at);
    case ncclInt64:
      return load<std::int64_t>(at);
    case ncclUint64:
      return load<std::uint64_t>(at);
    case ncclFloat16:
      return hvd::float16_to_float(static_cast<std::uint16_t>(load<std::uint16_t>(at)));
    case ncclFloat32:
      return load<float>(at);
    case ncclFloat64:
      return load<double>(at);
    case ncclBfloat16:
      return hvd::bfloat16_to_float(static_cast<std::uint16_t>(load<std::uint16_t>(at)));
    case ncclFloat8e4m3:
      return hvd::float8_to_float<hvd::Float8E4m3>(std::to_integer<std::uint8_t>(*at));
    default:
      return hvd::float8_to_float<hvd::Float8E5m2>(std::to_integer<std::uint8_t>(*at));
  }
}

bool is_whole(ncclDataType_t dtype) { return dtype <= ncclUint64; }

/// 1 or 2, so that sums and products of four ranks are exact in every type but the averages.
double given(int rank, std::size_t i) {
  return std::exp2((static_cast<std::size_t>(rank) + i) % 2);
}

Bytes tensor(ncclDataType_t dtype, std::size_t count, int rank) {
  Bytes bytes(count * kBytes[dtype]);
  for (std::size_t i = 0; i < count; ++i) put(&bytes[i * kBytes[dtype]], dtype, given(rank, i));
  return bytes;
}

double wanted(ncclRedOp_t op, ncclDataType_t dtype, int size, std::size_t i) {
  double value = given(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double other = given(rank, i);
    if (op == ncclSum || op == ncclAvg) value += other;
    if (op == ncclProd) value *= other;
    if (op == ncclMax) value = std::max(value, other);
    if (op == ncclMin) value = std::min(value, other);
  }
  if (op == ncclAvg) value = is_whole(dtype) ? std::floor(value / size) : value / size;
  return value;
}

void expect_values(const Bytes& bytes, ncclDataType_t dtype, ncclRedOp_t op, int size,
                   std::size_t first) {
  for (std::size_t i = 0; i < bytes.size() / kBytes[dtype]; ++i) {
    const double value = wanted(op, dtype, size, first + i);
    const double tolerance = op == ncclAvg && !is_whole(dtype) ? value / 8 : 0;
    ASSERT_NEAR(value_at(&bytes[i * kBytes[dtype]], dtype), value, tolerance)
        << "type " << dtype << ", reduction " << op << ", element " << first + i;
  }
}

void check_reductions(const NcclRank& mine, ncclDataType_t dtype, ncclRedOp_t op,
                      std::size_t count) {
  const auto size = static_cast<std::size_t>(mine.size);
  Bytes in = tensor(dtype, count, mine.rank);
  Bytes out(in.size());
  ASSERT_EQ(ncclAllReduce(in.data(), out.data(), count, dtype, op, mine.comm, mine.stream),
            ncclSuccess);
  Bytes at_root(in.size());
  const int root = mine.size - 1;
  ASSERT_EQ(ncclReduce(in.data(), at_root.data(), count, dtype, op, root, mine.comm, mine.stream),
            ncclSuccess);
  Bytes whole = tensor(dtype, count * size, mine.rank);
  Bytes part(in.size());
  ASSERT_EQ(ncclReduceScatter(whole.data(), part.data(), count, dtype, op, mine.comm, mine.stream),
            ncclSuccess);
  ASSERT_TRUE(mine.stream->wait());
  expect_values(out, dtype, op, mine.size, 0);
  if (mine.rank == root) expect_values(at_root, dtype, op, mine.size, 0);
  expect_values(part, dtype, op, mine.size, count * static_cast<std::size_t>(mine.rank));
  // In place.
  ASSERT_EQ(ncclAllReduce(in.data(), in.data(), count, dtype, op, mine.comm, mine.stream),
            ncclSuccess);
  std::byte* here = &whole[in.size() * static_cast<std::size_t>(mine.rank)];
  ASSERT_EQ(ncclReduceScatter(whole.data(), here, count, dtype, op, mine.comm, mine.stream),
            ncclSuccess);
  ASSERT_TRUE(mine.stream->wait());
  EXPECT_EQ(in, out);
  EXPECT_EQ(Bytes(here, here + in.size()), part);
}

class NcclDoubleOperations : public NcclDouble, public testing::WithParamInterface<int> {};

TEST_P(NcclDoubleOperations, ReduceEveryTypeAsFloat64Does) {
  run_nccl_ranks(GetParam(), [](const NcclRank& mine) {
    for (int dtype = 0; dtype < ncclNumTypes; ++dtype) {
      for (int op = 0; op < ncclNumOps; ++op) {
        check_reductions(mine, static_cast<ncclDataType_t>(dtype), static_cast<ncclRedOp_t>(op), 7);
      }
    }
    check_reductions(mine, ncclFloat32, ncclSum, 300'001);
  });
}

TEST_P(NcclDoubleOperations, MoveBytes) {
  run_nccl_ranks(GetParam(), [](const NcclRank& mine) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100'003}}) {
      const auto size = static_cast<std::size_t>(mine.size);
      const int root = mine.size - 1;
      Bytes all(count * size);
      const Bytes in = tensor(ncclUint8, count, mine.rank);
      Bytes from_root = in;
      ASSERT_EQ(ncclAllGather(in.data(), all.data(), count, ncclUint8, mine.comm, mine.stream),
                ncclSuccess);
      ASSERT_EQ(ncclBroadcast(from_root.data(), from_root.data(), count, ncclUint8, root, mine.comm,
                              mine.stream),
                ncclSuccess);
      ASSERT_TRUE(mine.stream->wait());
      EXPECT_EQ(from_root, tensor(ncclUint8, count, root));
      Bytes expected;
      for (int rank = 0; rank < mine.size; ++rank) {
        const Bytes theirs = tensor(ncclUint8, count, rank);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      EXPECT_EQ(all, expected);
      ASSERT_EQ(ncclAllGather(&all[count * static_cast<std::size_t>(mine.rank)], all.data(), count,
                              ncclUint8, mine.comm, mine.stream),
                ncclSuccess);
      ASSERT_TRUE(mine.stream->wait());
      EXPECT_EQ(all, expected);
    }
  });
}

TEST_P(NcclDoubleOperations, ExchangeInAGroup) {
  run_nccl_ranks(GetParam(), [](const NcclRank& mine) {
    const auto size = static_cast<std::size_t>(mine.size);
    std::vector<int> out(size * 3, mine.rank);
    std::vector<int> in(size * 3, -1);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = mine.size - 1; peer >= 0; --peer) {
      const auto at = static_cast<std::size_t>(peer) * 3;
      ASSERT_EQ(ncclSend(&out[at], 3, ncclInt32, peer, mine.comm, mine.stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(&in[at], 3, ncclInt32, peer, mine.comm, mine.stream), ncclSuccess);
    }
    std::vector<float> sum(4, 1.0F);
    ASSERT_EQ(
        ncclAllReduce(sum.data(), sum.data(), 4, ncclFloat32, ncclSum, mine.comm, mine.stream),
        ncclSuccess);
    EXPECT_TRUE(mine.stream->wait(std::chrono::milliseconds(0)))
        << "it left before the end of the group";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_TRUE(mine.stream->wait());
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i], static_cast<int>(i / 3));
    EXPECT_EQ(sum[3], static_cast<float>(mine.size));
  });
}

TEST_P(NcclDoubleOperations, ScaleBeforeTheSum) {
  run_nccl_ranks(GetParam(), [](const NcclRank& mine) {
    ncclRedOp_t op = ncclSum;
    std::uint16_t half = hvd::float_to_float16(0.5F);
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat16, ncclScalarHostImmediate, mine.comm),
              ncclSuccess);
    Bytes values = tensor(ncclFloat16, 5, mine.rank);
    ASSERT_EQ(
        ncclAllReduce(values.data(), values.data(), 5, ncclFloat16, op, mine.comm, mine.stream),
        ncclSuccess);
    ASSERT_EQ(ncclRedOpDestroy(op, mine.comm), ncclSuccess);
    ASSERT_TRUE(mine.stream->wait());
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(value_at(&values[i * 2], ncclFloat16),
                wanted(ncclSum, ncclFloat16, mine.size, i) / 2);
    }
  });
}

TEST_P(NcclDoubleOperations, AreSplitByColorInTheOrderOfKeys) {
  if (GetParam() < 2) return;
  for (const bool blocking : {true, false}) {
    run_nccl_ranks(
        GetParam(),
        [](const NcclRank& mine) {
          ncclComm_t part = nullptr;
          const int color = mine.rank == mine.size - 1 ? NCCL_SPLIT_NOCOLOR : 1;
          const ncclResult_t result = ncclCommSplit(mine.comm, color, -mine.rank, &part, nullptr);
          if (result == ncclInProgress) {
            ASSERT_EQ(settle(mine.comm), ncclSuccess);
          }
          EXPECT_EQ(part == nullptr, color != 1);
          if (part == nullptr) return;
          ASSERT_EQ(settle(part), ncclSuccess);
          int rank = -1;
          int size = -1;
          ASSERT_EQ(ncclCommUserRank(part, &rank), ncclSuccess);
          ASSERT_EQ(ncclCommCount(part, &size), ncclSuccess);
          EXPECT_EQ(size, mine.size - 1);
          EXPECT_EQ(rank, mine.size - 2 - mine.rank);
          float one = 1;
          const ncclResult_t sum =
              ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, part, mine.stream);
          if (sum == ncclInProgress) {
            ASSERT_EQ(settle(part), ncclSuccess);
          }
          ASSERT_TRUE(mine.stream->wait());
          EXPECT_EQ(one, static_cast<float>(size));
          ASSERT_EQ(ncclCommDestroy(part), ncclSuccess);
        },
        blocking);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclDoubleOperations, testing::Values(1, 2, 3, 4));

}  // namespace
