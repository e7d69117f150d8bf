// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.h"
#include "launcher/node/gpu_faults.h"

namespace hvd {
namespace {

struct Xid {
  std::uint64_t number;
  std::string_view meaning;
};

/// Of NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors): those that end programs.
constexpr std::array kXids{
    Xid{13, "an exception of the graphics engine: mostly a wrong address in a kernel"},
    Xid{31, "a page fault: a kernel has used an address that is not its own"},
    Xid{43, "the GPU has stopped the program's work after an error"},
    Xid{45, "the program's work was taken from the GPU, after an error before"},
    Xid{48, "an error of its memory that ECC cannot mend"},
    Xid{62, "its firmware has halted"},
    Xid{63, "a row of its memory was replaced: the GPU wants a reset"},
    Xid{64, "a row of its memory could not be replaced"},
    Xid{74, "an error of NVLink"},
    Xid{79, "the GPU has fallen off the bus"},
    Xid{92, "many errors of its memory"},
    Xid{94, "an error of its memory, contained to this program"},
    Xid{95, "an error of its memory, not contained: the GPU wants a reset"},
    Xid{109, "a program's work did not leave the GPU in time"},
    Xid{119, "its firmware (GSP) does not answer"},
    Xid{120, "an error of its firmware (GSP)"},
};

}  // namespace

std::string describe_xid(std::uint64_t xid) {
  const auto* const found = std::find_if(kXids.begin(), kXids.end(),
                                         [&](const Xid& known) { return known.number == xid; });
  if (found == kXids.end()) return format_text("Xid {}", xid);
  return format_text("Xid {} ({})", xid, found->meaning);
}

}  // namespace hvd
