// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/tcp_links.h"

#include <algorithm>
#include <vector>

#include "backends/tcp/frame_link.h"
#include "transport/interfaces.h"

namespace hvd {
namespace {

/// One or more sockets to each other node.
class TcpLinks : public LaneLinks {
 public:
  explicit TcpLinks(const BackendContext& context)
      : sockets_(static_cast<std::size_t>(context.sockets)),
        first_of_node_(static_cast<std::size_t>(context.communicator.node_count())) {
    for (std::size_t node = 0; node < first_of_node_.size(); ++node) {
      first_of_node_[node] = links_.size();
      for (std::size_t socket = 0; socket < sockets_; ++socket) {
        Link* const link = context.lane[node * sockets_ + socket];
        if (link != nullptr) links_.emplace_back(*link, static_cast<int>(node));
      }
    }
  }

  // The kernel has a copy of what it took.
  bool takes_tensors() const override { return true; }

  /// The socket with the least to send takes the frame: what is short does not wait behind what is
  /// long, and long ones use all.
  void queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
             std::size_t* unsent) override {
    const auto first = links_.begin() +
                       static_cast<std::ptrdiff_t>(first_of_node_[static_cast<std::size_t>(node)]);
    const auto link = std::min_element(
        first, first + static_cast<std::ptrdiff_t>(sockets_),
        [](const FrameLink& a, const FrameLink& b) { return a.queued_bytes() < b.queued_bytes(); });
    link->queue(header, payload, unsent);
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
  std::size_t sockets_;
  std::vector<FrameLink> links_;            // of a node side by side
  std::vector<std::size_t> first_of_node_;  // of links_
};

}  // namespace

std::unique_ptr<LaneLinks> make_tcp_links(const BackendContext& context) {
  if (context.communicator.local_rank >= context.lanes) return nullptr;
  return std::make_unique<TcpLinks>(context);
}

std::string describe_tcp_links(const BackendContext& context) {
  std::vector<std::string> interfaces;
  for (const Link* link : context.lane) {
    if (link == nullptr) continue;
    std::string name = interface_of_socket(link->fd());
    const bool is_new = std::find(interfaces.begin(), interfaces.end(), name) == interfaces.end();
    if (!name.empty() && is_new) interfaces.push_back(std::move(name));
  }
  std::string text = format_text("TCP, {} socket{} to each node and lane", context.sockets,
                                 context.sockets == 1 ? "" : "s");
  for (std::size_t i = 0; i < interfaces.size(); ++i) {
    text += format_text("{}{}", i == 0 ? ", here through " : ", ", interfaces[i]);
  }
  return text;
}

}  // namespace hvd
