// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/tcp_links.h"

#include <vector>

#include "backends/tcp/frame_link.h"

namespace hvd {
namespace {

/// One socket per other node.
class TcpLinks : public LaneLinks {
 public:
  explicit TcpLinks(const BackendContext& context) : link_of_node_(context.lane.size(), -1) {
    for (std::size_t node = 0; node < context.lane.size(); ++node) {
      if (context.lane[node] == nullptr) continue;
      link_of_node_[node] = static_cast<int>(links_.size());
      links_.emplace_back(*context.lane[node], static_cast<int>(node));
    }
  }

  void queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
             std::size_t* unsent) override {
    const int link = link_of_node_[static_cast<std::size_t>(node)];
    links_[static_cast<std::size_t>(link)].queue(header, payload, unsent);
  }

  Result<bool> pump(FrameSink& sink) override {
    bool moved = false;
    for (FrameLink& link : links_) {
      HVD_TRY_ASSIGN(const bool sent, link.send());
      HVD_TRY_ASSIGN(const bool received, link.receive(sink));
      moved = moved || sent || received;
    }
    return moved;
  }

  void forget() override {
    for (FrameLink& link : links_) link.forget();
  }

 private:
  std::vector<FrameLink> links_;
  std::vector<int> link_of_node_;  // index into links_; -1 for mine
};

}  // namespace

std::unique_ptr<LaneLinks> make_tcp_links(const BackendContext& context) {
  if (context.communicator.local_rank >= context.lanes) return nullptr;
  return std::make_unique<TcpLinks>(context);
}

}  // namespace hvd
