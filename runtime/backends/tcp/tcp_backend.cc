// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/tcp_backend.h"

#include <algorithm>
#include <utility>

#include "backends/lanes/lane_backend.h"
#include "backends/shm/node_plane.h"
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

Result<std::unique_ptr<Backend>> create_tcp(const BackendContext& context) {
  const Communicator& communicator = context.communicator;
  if (communicator.node_count() == 1) {
    return error(Code::kUnsupported, "tcp serves several nodes, and all ranks live on one");
  }
  const auto open = std::count_if(context.lane.begin(), context.lane.end(),
                                  [](const Link* link) { return link != nullptr; });
  const bool is_lane = communicator.local_rank < context.lanes;
  if (context.lanes < 1 || (is_lane && open != communicator.node_count() - 1)) {
    return error(Code::kUnsupported,
                 "tcp: rank {} has {} connections to the {} other nodes of this process set",
                 communicator.rank, open, communicator.node_count() - 1);
  }
  std::unique_ptr<LaneLinks> links;
  if (is_lane) links = std::make_unique<TcpLinks>(context);
  return make_lane_backend(kTcpBackend.name, context, std::move(links), "TCP");
}

}  // namespace

const BackendEntry kTcpBackend = {
    .name = "tcp", .memory_bytes = &NodePlane::memory_bytes, .create = &create_tcp};

}  // namespace hvd
