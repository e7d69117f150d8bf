// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvd {

/// How many letters must be put in, left out, changed or swapped with their neighbour to turn one
/// word into the other.
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The candidate that was probably meant by `word`, mistyped by a letter or two or broken off;
/// empty: none is near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace hvd
