// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/group.h"

#include <algorithm>
#include <thread>

namespace double_nccl {

Group& Group::of_this_thread() {
  static thread_local Group group;
  return group;
}

ncclResult_t Group::end() {
  if (depth_ == 0) {
    complain("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  return --depth_ == 0 ? launch() : ncclSuccess;
}

ncclResult_t Group::add(CommunicatorPtr communicator, CUstream stream, Call call) {
  const auto same = std::find_if(launches_.begin(), launches_.end(), [&](const Launch& launch) {
    return launch.communicator == communicator;
  });
  if (same == launches_.end()) {
    launches_.push_back({std::move(communicator), stream, {std::move(call)}});
  } else if (same->stream == stream) {
    same->calls.push_back(std::move(call));
  } else {
    complain("one communicator on two streams in a group: the double does not serve that");
    return fail(ncclInvalidUsage);
  }
  return depth_ == 0 ? launch() : ncclSuccess;
}

ncclResult_t Group::add(CommunicatorPtr communicator, std::function<ncclResult_t()> job) {
  jobs_.emplace_back(std::move(communicator), std::move(job));
  return depth_ == 0 ? launch() : ncclSuccess;
}

ncclResult_t Group::fail(ncclResult_t code) {
  if (depth_ > 0 && error_ == ncclSuccess) error_ = code;
  return code;
}

ncclResult_t Group::run_jobs() {
  const auto jobs = std::exchange(jobs_, {});
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [communicator, job] = jobs[i];
    if (!communicator->is_blocking() || jobs.size() == 1) {
      results[i] = communicator->begin(job);
    } else {
      threads.emplace_back([&, i] { results[i] = jobs[i].first->begin(jobs[i].second); });
    }
  }
  for (std::thread& thread : threads) thread.join();
  ncclResult_t worst = ncclSuccess;
  for (const ncclResult_t result : results) {
    if (worst == ncclSuccess || (worst == ncclInProgress && result != ncclSuccess)) worst = result;
  }
  return worst;
}

ncclResult_t Group::launch() {
  const ncclResult_t error = std::exchange(error_, ncclSuccess);
  const auto launches = std::exchange(launches_, {});
  if (error != ncclSuccess) {
    jobs_.clear();
    return error;
  }
  ncclResult_t worst = run_jobs();
  for (const Launch& launch : launches) {
    const ncclResult_t result = launch.communicator->begin(
        [communicator = launch.communicator.get(), calls = launch.calls, stream = launch.stream] {
          return communicator->launch(calls, stream);
        });
    if (worst == ncclSuccess || (worst == ncclInProgress && result != ncclSuccess)) worst = result;
  }
  return worst;
}

}  // namespace double_nccl
