// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/cell_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace hvd {
namespace {

Bytes message(std::size_t size, int seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed);
  return bytes;
}

Bytes copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(CellRing, DeliversMessagesOfAnyLengthInOrder) {
  std::vector<Cell> cells(8);
  RingCursor cursor{};
  RingWriter writer(cells, {&cursor});
  RingReader reader(cells, &cursor);
  const std::size_t sizes[] = {0, 1, 55, 56, 57, 112, 113, 8 * 56, 5'000};
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    writer.write(message(sizes[i], static_cast<int>(i)));
    std::optional<std::span<const std::byte>> got;
    for (int tries = 0; tries < 1'000 && !(got = reader.read()); ++tries) writer.flush();
    ASSERT_TRUE(got) << sizes[i];
    EXPECT_EQ(copy(*got), message(sizes[i], static_cast<int>(i)));
    EXPECT_FALSE(reader.read());
  }
  EXPECT_FALSE(writer.has_unsent());
}

TEST(CellRing, WaitsForTheSlowestReader) {
  std::vector<Cell> cells(4);
  RingCursor fast{};
  RingCursor slow{};
  RingWriter writer(cells, {&fast, &slow});
  RingReader fast_reader(cells, &fast);
  RingReader slow_reader(cells, &slow);
  for (int i = 0; i < 5; ++i) writer.write(message(10, i));
  EXPECT_TRUE(writer.has_unsent());
  while (fast_reader.read()) {
  }
  EXPECT_FALSE(writer.flush()) << "the slow reader has not read";
  EXPECT_EQ(copy(*slow_reader.read()), message(10, 0));
  EXPECT_TRUE(writer.flush());
  for (int i = 1; i < 5; ++i) EXPECT_EQ(copy(*slow_reader.read()), message(10, i));
  EXPECT_EQ(copy(*fast_reader.read()), message(10, 4));
}

TEST(CellRing, RunsBetweenThreads) {
  std::vector<Cell> cells(16);
  RingCursor cursor{};
  std::thread reading([&] {
    RingReader reader(cells, &cursor);
    for (int i = 0; i < 2'000; ++i) {
      std::optional<std::span<const std::byte>> got;
      while (!(got = reader.read())) std::this_thread::yield();
      ASSERT_EQ(copy(*got), message(static_cast<std::size_t>(i % 300), i));
    }
  });
  RingWriter writer(cells, {&cursor});
  for (int i = 0; i < 2'000; ++i) writer.write(message(static_cast<std::size_t>(i % 300), i));
  while (writer.has_unsent()) {
    if (!writer.flush()) std::this_thread::yield();
  }
  reading.join();
}

}  // namespace
}  // namespace hvd
