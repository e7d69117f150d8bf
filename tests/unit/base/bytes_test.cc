// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

TEST(Bytes, ReadsBackWhatWasWritten) {
  ByteWriter writer;
  writer.put<std::uint16_t>(0xABCD);
  writer.put_string("fc.weight");
  writer.put_vector(std::vector<std::int64_t>{-1, 2, 3});
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.get<std::uint16_t>().value(), 0xABCD);
  EXPECT_EQ(reader.get_string().value(), "fc.weight");
  EXPECT_EQ(reader.get_vector<std::int64_t>().value(), (std::vector<std::int64_t>{-1, 2, 3}));
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(Bytes, EveryTruncationIsAnError) {
  ByteWriter writer;
  writer.put_string("abc");
  writer.put_vector(std::vector<std::int32_t>{1, 2});
  const Bytes whole = writer.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ByteReader reader(std::span<const std::byte>(whole).first(size));
    const auto text = reader.get_string();
    if (!text.is_ok()) continue;
    EXPECT_FALSE(reader.get_vector<std::int32_t>().is_ok()) << size;
  }
}

TEST(Bytes, AHugeCountIsAnErrorAndAllocatesNothing) {
  ByteWriter writer;
  writer.put<std::uint32_t>(0xFFFFFFFF);
  ByteReader reader(writer.bytes());
  const auto values = reader.get_vector<std::int64_t>();
  ASSERT_FALSE(values.is_ok());
  EXPECT_EQ(values.status().code(), Code::kInternal);
}

}  // namespace
}  // namespace hvd
