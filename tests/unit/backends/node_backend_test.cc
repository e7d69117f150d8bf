// SPDX-License-Identifier: Apache-2.0
#include "backends/node/node_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hvd {
namespace {

TEST(NodeBackend, DeclinesWhatItHasNoTaskFor) {
  for (const Operation& operation : {Operation(Barrier{}), Operation(Join{})}) {
    const Status status = check_node_operation("shm", operation, DataType::kFloat32);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_EQ(status.message(), "shm has no " + std::string(kind_name(operation)));
  }
  for (std::size_t kind = 0; kind < kKindCount; ++kind) {
    const auto operation = operation_of(kind);
    ASSERT_TRUE(operation);
    EXPECT_EQ(check_node_operation("shm", *operation, DataType::kFloat32).is_ok(),
              kind_of(*operation).has_tensors)
        << kind_name(*operation);
  }
}

}  // namespace
}  // namespace hvd
