// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <string>

namespace hvd {

/// Whether there is a file of that path.
using IsFile = std::function<bool(const std::string&)>;

/// The sentence about a rank whose Python has no hvd or no horovod, as its last lines show, with
/// where they are; empty: they show nothing of the kind. `program` is what ran, `self` the path of
/// hvdrun, beside which the packages are installed.
std::string package_hint(const std::deque<std::string>& lines, const std::string& program,
                         const std::string& self, const IsFile& is_file);
/// The same for this hvdrun and its files.
std::string package_hint(const std::deque<std::string>& lines, const std::string& program);

}  // namespace hvd
