// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "hvd/hvd.h"

namespace hvd {

/// All that a request says except for the memory of its tensors, as bytes: requests with the same
/// ones are translated alike. For KeptRequests.
class RequestKey {
 public:
  explicit RequestKey(const hvd_request& given);
  /// Empty: the request is long, of an older hvd.h, on a GPU, has a callback, or cannot be read.
  std::string_view text() const { return {bytes_.data(), length_}; }

 private:
  static constexpr std::size_t kMostBytes = 512;

  template <typename Value>
  bool append(const Value& value) {
    return append(&value, sizeof(value));
  }
  bool append(const void* bytes, std::size_t count);
  bool append(const hvd_tensor& tensor);
  bool append_all(const hvd_request& given);

  std::array<char, kMostBytes> bytes_;  // not zeroed: most of it is not used
  std::size_t length_ = 0;
};

}  // namespace hvd
