// SPDX-License-Identifier: Apache-2.0
#include "optim/compression/compressor.h"

#include <cmath>
#include <utility>

#include "compression/ranks.h"

namespace hvd {
namespace {

TEST(Compression, LetsThroughWhatWouldNotBecomeSmaller) {
  struct Case {
    Compression compression;
    std::vector<std::int64_t> shape;
    bool whole;
  };
  for (const Case& one : std::initializer_list<Case>{
           {{.method = CompressionMethod::kNone, .smallest = 1}, {1'000, 1'000}, true},
           {{.method = CompressionMethod::kFloat8E4m3}, {1'023}, true},
           {{.method = CompressionMethod::kFloat8E4m3}, {32, 32}, false},
           {{.method = CompressionMethod::kFloat8E5m2, .smallest = 0}, {0}, true},
           {{.method = CompressionMethod::kFloat8E5m2, .smallest = 0}, {}, false},
           {{.method = CompressionMethod::kTopK, .ratio = 0.5}, {2'000}, true},
           {{.method = CompressionMethod::kTopK, .ratio = 0.49}, {2'000}, false},
           {{.method = CompressionMethod::kPowerSgd}, {5'000}, true},
           {{.method = CompressionMethod::kPowerSgd}, {5'000, 1}, true},
           {{.method = CompressionMethod::kPowerSgd}, {5'000, 2}, true},
           {{.method = CompressionMethod::kPowerSgd}, {5'000, 3}, false},
           {{.method = CompressionMethod::kPowerSgd}, {64, 3, 7, 7}, false},
       }) {
    const Tensor gradient{.shape = one.shape};
    const auto made = make_compressor(one.compression, "w", gradient);
    ASSERT_TRUE(made.is_ok()) << made.status().message();
    EXPECT_EQ(made.value() == nullptr, one.whole) << name_of(one.compression.method);
  }
}

TEST(Compression, RefusesWhatItCannotDo) {
  const Tensor floats{.shape = {2'000}};
  for (const Compression& wrong : std::initializer_list<Compression>{
           {.method = static_cast<CompressionMethod>(99)},
           {.method = CompressionMethod::kTopK, .ratio = 0},
           {.method = CompressionMethod::kTopK, .ratio = 1.5},
           {.method = CompressionMethod::kTopK, .momentum = 1},
           {.method = CompressionMethod::kTopK, .momentum = -0.1},
           {.method = CompressionMethod::kTopK, .momentum = NAN},
           {.method = CompressionMethod::kPowerSgd, .momentum = 0.9},
           {.method = CompressionMethod::kPowerSgd, .rank = 0},
           {.method = CompressionMethod::kPowerSgd, .rank = 65},
       }) {
    EXPECT_EQ(make_compressor(wrong, "w", floats).status().code(), Code::kInvalidArgument);
  }
  const Tensor doubles{.dtype = DataType::kFloat64, .shape = {2'000}};
  const Tensor many{.shape = {1LL << 17, 1LL << 16}};
  const Compression top{.method = CompressionMethod::kTopK};
  EXPECT_EQ(make_compressor(top, "w", doubles).status().code(), Code::kUnsupported);
  EXPECT_EQ(make_compressor(top, "w", many).status().code(), Code::kUnsupported);
}

/// What is kept is in true units, so that a loss scale may change from step to step.
TEST(Compression, GivesTheSameAtEveryLossScale) {
  for (const Compression& compression : std::initializer_list<Compression>{
           {.method = CompressionMethod::kFloat8E4m3, .smallest = 1},
           {.method = CompressionMethod::kTopK, .ratio = 0.05, .smallest = 1},
           {.method = CompressionMethod::kTopK, .ratio = 0.05, .smallest = 1, .momentum = 0.5},
           {.method = CompressionMethod::kTopK, .smallest = 1'000, .momentum = 0.5},
           {.method = CompressionMethod::kPowerSgd, .smallest = 1}}) {
    Ranks plain(2, compression, {30, 20});
    Ranks scaled(2, compression, {30, 20});
    for (std::uint32_t step = 1; step < 9; ++step) {
      const float unit = std::ldexp(1.0F, static_cast<int>(5 * step % 17));
      auto expected = noise_by_rank(2, 600, step);
      auto gradients = expected;
      for (Vector& one : gradients) {
        for (float& value : one) value *= unit;
      }
      plain.step(expected);
      scaled.step(gradients, {ReduceOp::kAverage}, unit);
      for (float& value : gradients[0]) value /= unit;
      ASSERT_TRUE(same_bits(gradients[0], expected[0])) << name_of(compression.method) << step;
    }
    EXPECT_EQ(plain.state(0), scaled.state(0)) << name_of(compression.method);
  }
}

TEST(Compression, GoesOnFromItsStateWithTheSameBits) {
  for (const auto& [method, momentum] : std::initializer_list<std::pair<CompressionMethod, double>>{
           {CompressionMethod::kFloat8E4m3, 0},
           {CompressionMethod::kFloat8E5m2, 0},
           {CompressionMethod::kTopK, 0},
           {CompressionMethod::kTopK, 0.9},
           {CompressionMethod::kPowerSgd, 0}}) {
    const Compression compression{
        .method = method, .ratio = 0.05, .rank = 2, .smallest = 1, .momentum = momentum};
    Ranks first(2, compression, {30, 20});
    for (std::uint32_t step = 1; step < 4; ++step) {
      auto gradients = noise_by_rank(2, 600, step);
      first.step(gradients);
    }
    Ranks second(2, compression, {30, 20});
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ByteWriter writer;
      first[rank].save(writer);
      ByteReader reader(writer.bytes());
      ASSERT_TRUE(second[rank].load(reader).is_ok());
      EXPECT_EQ(reader.remaining(), 0u);
    }
    auto gradients = noise_by_rank(2, 600, 9);
    auto resumed = gradients;
    first.step(gradients);
    second.step(resumed);
    EXPECT_TRUE(same_bits(gradients[0], resumed[0])) << name_of(method);
  }
}

}  // namespace
}  // namespace hvd
