// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/set_change.h"

#include <algorithm>
#include <map>

#include "engine/request/description.h"

namespace hvd {
namespace {

std::string wish_of(const SetProposal& proposal) {
  if (proposal.kind == SetProposal::Kind::kRemove) {
    return format_text("remove process set {}", proposal.process_set);
  }
  if (proposal.kind == SetProposal::Kind::kTell) return "add those of their communicators";
  return "add " + describe_list(proposal.ranks);
}

}  // namespace

void SetProposal::set_deadline(Deadline deadline) {
  if (deadline.is_forever()) return;
  const auto left = deadline.time() - Clock::now();
  patience_ms = std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
}

Bytes encode(const SetProposal& proposal) {
  ByteWriter writer;
  writer.put(proposal.kind);
  writer.put(static_cast<std::int32_t>(proposal.process_set));
  writer.put_vector(proposal.ranks);
  writer.put(proposal.in_flight);
  writer.put(proposal.patience_ms);
  return writer.take();
}

Result<SetProposal> decode_proposal(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  SetProposal proposal;
  HVD_TRY_ASSIGN(proposal.kind, reader.get<SetProposal::Kind>());
  HVD_TRY_ASSIGN(proposal.process_set, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(proposal.ranks, reader.get_vector<int>());
  HVD_TRY_ASSIGN(proposal.in_flight, reader.get<std::uint64_t>());
  HVD_TRY_ASSIGN(proposal.patience_ms, reader.get<std::int64_t>());
  return proposal;
}

Bytes encode(const SetAnswer& answer) {
  ByteWriter writer;
  writer.put(static_cast<std::int32_t>(answer.status.code()));
  writer.put_string(answer.status.message());
  writer.put_string(answer.offer);
  return writer.take();
}

Result<SetAnswer> decode_answer(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  SetAnswer answer;
  HVD_TRY_ASSIGN(const auto code, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(std::string text, reader.get_string());
  HVD_TRY_ASSIGN(answer.offer, reader.get_string());
  if (code < 0 || code > static_cast<int>(Code::kInternal)) {
    return error(Code::kInternal, "a rank answers with the invalid status code {}", code);
  }
  if (code != 0) answer.status = Status(static_cast<Code>(code), std::move(text));
  return answer;
}

Status check_proposals(const std::vector<SetProposal>& by_rank) {
  std::map<std::string, RankSet> wishes;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto& ranks =
        wishes.try_emplace(wish_of(by_rank[rank]), static_cast<int>(by_rank.size())).first->second;
    ranks.add(static_cast<int>(rank));
  }
  if (wishes.size() > 1) {
    std::string text = "process sets: ranks disagree: ";
    for (const auto& [wish, ranks] : wishes) {
      text += format_text("{}{} {} {}", wish == wishes.begin()->first ? "" : ", ",
                          describe_ranks(ranks), ranks.count() == 1 ? "wants to" : "want to", wish);
    }
    return Status(Code::kMismatch, text + "; make the same change on every rank");
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].in_flight == 0) continue;
    return error(
        Code::kInvalidArgument,
        "process set {} cannot be removed: rank {} has {} operations of it in flight; wait "
        "for them on every rank first",
        by_rank[rank].process_set, rank, by_rank[rank].in_flight);
  }
  return Status::ok();
}

Status first_failure(const std::vector<SetAnswer>& by_rank, const std::vector<std::string>& hosts) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Status& status = by_rank[rank].status;
    if (status.is_ok()) continue;
    return error(status.code(), "process sets: rank {} on host {}: {}", rank, hosts[rank],
                 status.message());
  }
  return Status::ok();
}

Deadline common_deadline(const std::vector<SetProposal>& by_rank) {
  Deadline deadline = kForever;
  for (const SetProposal& proposal : by_rank) {
    if (proposal.patience_ms == SetProposal::kNoLimit) continue;
    deadline = deadline.earlier(Deadline::after(std::chrono::milliseconds(proposal.patience_ms)));
  }
  return deadline;
}

}  // namespace hvd
