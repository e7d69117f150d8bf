// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/attendance.h"

#include <algorithm>
#include <string>

#include "base/result.h"

namespace hvd {

using store_message::reply_of;
using store_message::Request;

namespace {

Attendance::Answer order_to_kill(Attendance::Client client) {
  return {client, reply_of(error(Code::kAborted, "the process is to be killed"))};
}

}  // namespace

std::optional<Attendance::Answer> Attendance::attend(Client client, const Request& request) {
  const int process = request.rank;
  const bool is_known = process >= 0 && process < processes_ && !ended_.contains(process);
  const auto before = clients_.find(process);
  if (!is_known || (before != clients_.end() && before->second != client)) {
    return Answer{client,
                  reply_of(error(Code::kInvalidArgument,
                                 "the job has no process {} that nobody attends yet", process))};
  }
  if (before == clients_.end()) {
    clients_[process] = client;
    successors_.erase(client);
    events_.emplace_back(ProcessCame{process, request.key});
  }
  if (condemned_.contains(process)) return order_to_kill(client);
  waiting_.insert(client);
  return std::nullopt;
}

std::optional<Attendance::Answer> Attendance::ended(Client client, const Request& request) {
  const auto attended = clients_.find(request.rank);
  if (attended == clients_.end() || attended->second != client) {
    return Answer{
        client, reply_of(error(Code::kInvalidArgument,
                               "the end of process {} is not for this one to say", request.rank))};
  }
  clients_.erase(attended);
  ended_.insert(request.rank);
  reporters_[request.rank] = client;
  events_.emplace_back(ProcessEnded{request.rank, request.status, request.value});
  return std::nullopt;
}

std::optional<Attendance::Answer> Attendance::answer_end(int process, int successor) {
  const auto reporter = reporters_.find(process);
  if (reporter == reporters_.end()) {
    // Whoever was to start it is gone.
    if (successor >= 0) events_.emplace_back(ProcessGone{successor});
    return std::nullopt;
  }
  store_message::Reply reply = reply_of(Status::ok());
  if (successor >= 0) {
    reply.values.push_back(std::to_string(successor));
    successors_[reporter->second] = successor;
  }
  Answer answer{reporter->second, std::move(reply)};
  reporters_.erase(reporter);
  return answer;
}

std::optional<Attendance::Answer> Attendance::interrupt(Client client) {
  if (waiting_.erase(client) == 0) return std::nullopt;
  return Answer{client, reply_of(Status::ok())};
}

void Attendance::forget(Client client) {
  waiting_.erase(client);
  if (const auto promised = successors_.find(client); promised != successors_.end()) {
    events_.emplace_back(ProcessGone{promised->second});
    successors_.erase(promised);
  }
  std::erase_if(reporters_, [&](const auto& entry) { return entry.second == client; });
  const auto attended = std::find_if(clients_.begin(), clients_.end(),
                                     [&](const auto& entry) { return entry.second == client; });
  if (attended == clients_.end()) return;
  ended_.insert(attended->first);
  events_.emplace_back(ProcessGone{attended->first});
  clients_.erase(attended);
}

std::optional<Attendance::Answer> Attendance::kill(int process) {
  condemned_.insert(process);
  const auto attended = clients_.find(process);
  if (attended == clients_.end() || waiting_.erase(attended->second) == 0) return std::nullopt;
  return order_to_kill(attended->second);
}

}  // namespace hvd
