// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// Several functions as one, for std::visit: one for each alternative, or it does not compile.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace hvd
