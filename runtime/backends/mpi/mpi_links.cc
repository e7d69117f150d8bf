// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_links.h"

#include <array>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/deadline.h"

namespace hvd {
namespace {

// One page with its header; most MPI libraries send such a message eagerly.
constexpr std::size_t kShortBytes = 4096 - sizeof(FrameHeader);
/// Frames to one peer that MPI may have at once; the rest waits here.
constexpr int kFrames = 16;
/// Slots of a peer: its receive, then a header and a payload for each frame.
constexpr int kSlots = 1 + 2 * kFrames;
/// MPI promises this many tags.
constexpr int kTags = 32'768;

struct Message {
  FrameHeader header;
  std::array<std::byte, kShortBytes> payload;
};

class MpiLinks : public LaneLinks {
 public:
  MpiLinks(const BackendContext& context, std::shared_ptr<MpiSession> session)
      : session_(std::move(session)),
        calls_(session_->library().calls()),
        communicator_(context.communicator),
        peer_of_node_(context.communicator.nodes.size(), -1) {
    const Communicator& communicator = context.communicator;
    for (int node = 0; node < communicator.node_count(); ++node) {
      if (node == communicator.node) continue;
      const std::vector<int>& ranks = communicator.nodes[static_cast<std::size_t>(node)];
      const int rank = ranks[static_cast<std::size_t>(communicator.local_rank)];
      const int world_rank = communicator.world_ranks[static_cast<std::size_t>(rank)];
      peer_of_node_[static_cast<std::size_t>(node)] = static_cast<int>(peers_.size());
      peers_.push_back(std::make_unique<Peer>(
          Peer{.node = node,
               .mpi_rank = session_->mpi_rank_of(world_rank),
               .name = format_text("rank {} on host {}", world_rank,
                                   communicator.hosts[static_cast<std::size_t>(rank)])}));
    }
    const int slots = static_cast<int>(peers_.size()) * kSlots;
    channel_ = calls_.open_channel(session_->library().mpi(), slots);
    done_.resize(static_cast<std::size_t>(slots));
  }

  ~MpiLinks() override {
    if (stop_receiving()) {
      calls_.close_channel(channel_);
      return;
    }
    // Leaked: MPI may still write into the buffers of its receives, and cannot be told to stop.
    for (auto& peer : peers_) static_cast<void>(peer.release());
  }

  void queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
             std::size_t* unsent) override {
    const int index = peer_of_node_[static_cast<std::size_t>(node)];
    Peer& peer = *peers_[static_cast<std::size_t>(index)];
    peer.queue.push_back({header, payload, unsent});
    peer.queue.back().header.bytes = payload.size();
    ++*unsent;
  }

  Result<bool> pump(FrameSink& sink) override {
    if (calls_.is_finalized(session_->library().mpi()) != 0) return ended();
    int count = 0;
    HVD_TRY(check(calls_.poll(channel_, done_.data(), &count)));
    for (int i = 0; i < count; ++i) complete(done_[static_cast<std::size_t>(i)], sink);
    bool moved = count > 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      HVD_TRY_ASSIGN(const bool sent, send_to(static_cast<int>(i)));
      HVD_TRY_ASSIGN(const bool received, receive_from(static_cast<int>(i), sink));
      moved = moved || sent || received;
    }
    return moved;
  }

  void forget() override {
    for (const auto& peer : peers_) {
      keeps_ = keeps_ || peer->in_flight > 0 || peer->stage == Stage::kPayload;
      peer->queue.clear();
    }
    if (keeps_) session_->mark_lost();
  }

  bool needs_polling() const override { return true; }
  bool keeps_memory() const override { return keeps_; }

 private:
  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> payload;
    std::size_t* unsent;
  };
  /// A frame that MPI is sending, in one message or two.
  struct Frame {
    Message message;
    std::size_t* unsent = nullptr;
    int messages = 0;  // not yet sent
  };
  enum class Stage { kNothing, kHeader, kArrived, kPayload };
  struct Peer {
    int node;
    int mpi_rank;
    std::string name;
    std::deque<Outgoing> queue = {};
    std::array<Frame, kFrames> frames = {};
    int in_flight = 0;
    Message incoming = {};
    std::size_t incoming_bytes = 0;
    Stage stage = Stage::kNothing;  // of the receive
  };

  /// Frames of two process sets never meet. A set has its number only once it is formed.
  int tag() const { return communicator_.process_set % kTags; }

  Status check(int code) const {
    if (code == 0) return Status::ok();
    session_->mark_lost();
    const Status status = session_->library().check(code, "MPI failed between the nodes");
    return {Code::kPeerLost, status.message()};
  }

  Status ended() const {
    session_->mark_lost();
    return error(Code::kPeerLost,
                 "the program has ended MPI (MPI_Finalize), which moves hvd's data; call "
                 "hvd_shutdown() before it");
  }

  void complete(const hvd_mpi_done& done, FrameSink& sink) {
    Peer& peer = *peers_[static_cast<std::size_t>(done.slot / kSlots)];
    const int slot = done.slot % kSlots;
    if (slot == 0) {
      if (peer.stage == Stage::kPayload) {
        peer.stage = Stage::kNothing;
        sink.arrived(peer.node, peer.incoming.header);
      } else {
        peer.stage = Stage::kArrived;
        peer.incoming_bytes = static_cast<std::size_t>(done.bytes);
      }
      return;
    }
    Frame& frame = peer.frames[static_cast<std::size_t>((slot - 1) / 2)];
    if (--frame.messages > 0) return;
    --*frame.unsent;
    --peer.in_flight;
  }

  Result<bool> send_to(int index) {
    Peer& peer = *peers_[static_cast<std::size_t>(index)];
    bool moved = false;
    for (int i = 0; i < kFrames && !peer.queue.empty(); ++i) {
      Frame& frame = peer.frames[static_cast<std::size_t>(i)];
      if (frame.messages > 0) continue;
      const Outgoing& first = peer.queue.front();
      const bool is_short = first.payload.size() <= kShortBytes;
      frame.message.header = first.header;
      frame.unsent = first.unsent;
      frame.messages = is_short ? 1 : 2;
      ++peer.in_flight;
      const int slot = index * kSlots + 1 + 2 * i;
      if (is_short && !first.payload.empty()) {
        std::memcpy(frame.message.payload.data(), first.payload.data(), first.payload.size());
      }
      const std::size_t bytes = sizeof(FrameHeader) + (is_short ? first.payload.size() : 0);
      HVD_TRY(check(calls_.send(channel_, slot, &frame.message, static_cast<int>(bytes),
                                peer.mpi_rank, tag())));
      if (!is_short) {
        HVD_TRY(check(calls_.send(channel_, slot + 1, first.payload.data(),
                                  static_cast<int>(first.payload.size()), peer.mpi_rank, tag())));
      }
      peer.queue.pop_front();
      moved = true;
    }
    return moved;
  }

  Result<bool> receive_from(int index, FrameSink& sink) {
    Peer& peer = *peers_[static_cast<std::size_t>(index)];
    bool moved = false;
    if (peer.stage == Stage::kArrived) {
      HVD_TRY_ASSIGN(moved, take(index, sink));
    }
    if (peer.stage != Stage::kNothing) return moved;
    peer.stage = Stage::kHeader;
    HVD_TRY(check(calls_.receive(channel_, index * kSlots, &peer.incoming,
                                 static_cast<int>(sizeof(Message)), peer.mpi_rank, tag())));
    return true;
  }

  /// Gives the frame that has come to the sink, or the place of its payload to MPI.
  Result<bool> take(int index, FrameSink& sink) {
    Peer& peer = *peers_[static_cast<std::size_t>(index)];
    const FrameHeader& header = peer.incoming.header;
    const std::size_t inside = header.bytes <= kShortBytes ? header.bytes : 0;
    if (peer.incoming_bytes != sizeof(FrameHeader) + inside ||
        header.magic != FrameHeader::kMagic) {
      return unexpected(peer, error(Code::kInternal, "a message of {} bytes, magic number {:#x}",
                                    peer.incoming_bytes, header.magic));
    }
    auto place = sink.place(peer.node, header);
    if (!place.is_ok()) return unexpected(peer, place.status());
    if (!place.value().has_value()) return false;
    std::byte* const target = *place.value();
    if (header.bytes > kShortBytes) {
      peer.stage = Stage::kPayload;
      HVD_TRY(check(calls_.receive(channel_, index * kSlots, target, static_cast<int>(header.bytes),
                                   peer.mpi_rank, tag())));
      return true;
    }
    if (inside > 0) std::memcpy(target, peer.incoming.payload.data(), inside);
    peer.stage = Stage::kNothing;
    sink.arrived(peer.node, header);
    return true;
  }

  Status unexpected(const Peer& peer, const Status& reason) const {
    const FrameHeader& header = peer.incoming.header;
    return error(Code::kInternal,
                 "unexpected frame from {} over MPI (kind {}, transfer {}, round {}, {} bytes): {}",
                 peer.name, header.kind, header.transfer, header.round, header.bytes,
                 reason.message());
  }

  /// True when MPI has none of our buffers any more.
  bool stop_receiving() {
    if (keeps_ || !session_->may_call()) return false;
    int left = 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i]->in_flight > 0) return false;
      if (peers_[i]->stage != Stage::kHeader) continue;
      ++left;
      if (calls_.cancel(channel_, static_cast<int>(i) * kSlots) != 0) return false;
    }
    const Deadline deadline = Deadline::after(std::chrono::seconds(1));
    while (left > 0 && !deadline.has_passed()) {
      int count = 0;
      if (calls_.poll(channel_, done_.data(), &count) != 0) return false;
      left -= count;
    }
    return left == 0;
  }

  std::shared_ptr<MpiSession> session_;
  const hvd_mpi_plugin& calls_;
  const Communicator& communicator_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<int> peer_of_node_;
  hvd_mpi_channel* channel_;
  std::vector<hvd_mpi_done> done_;
  bool keeps_ = false;
};

}  // namespace

std::unique_ptr<LaneLinks> make_mpi_links(const BackendContext& context,
                                          std::shared_ptr<MpiSession> session) {
  return std::make_unique<MpiLinks>(context, std::move(session));
}

}  // namespace hvd
