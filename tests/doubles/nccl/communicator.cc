// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/communicator.h"

#include <cstring>
#include <utility>

#include "doubles/nccl/gpu_room.h"

namespace double_nccl {

/// What waits in a stream, or in a graph.
struct Communicator::Work {
  CommunicatorPtr communicator;
  std::vector<Call> calls;
  bool is_captured = false;
  std::uint64_t turn = 0;  ///< Of what is not captured: work goes in the order of launches.
};

Communicator::~Communicator() {
  spoke_.abort();
  if (background_.joinable()) background_.join();
}

ncclResult_t Communicator::begin(std::function<ncclResult_t()> work) {
  if (blocking_) {
    const ncclResult_t result = work();
    set_outcome(result);
    return result;
  }
  if (background_.joinable()) background_.join();  // what it did has ended: see state()
  {
    const hvd::Lock lock(mutex_);
    outcome_ = ncclInProgress;
    polls_left_ = progress_polls();
  }
  background_ = std::thread([this, work = std::move(work)] { set_outcome(work()); });
  return ncclInProgress;
}

ncclResult_t Communicator::connect(const ncclUniqueId& id) {
  Hello hello = hello_;
  hello.rank = rank_;
  hello.size = size_;
  return spoke_.join(id, hello);
}

void Communicator::set_outcome(ncclResult_t outcome) {
  const hvd::Lock lock(mutex_);
  outcome_ = outcome;
}

ncclResult_t Communicator::poll() {
  const ncclResult_t result = state();
  const hvd::Lock lock(mutex_);
  if (polls_left_ > 0) --polls_left_;
  return result;
}

ncclResult_t Communicator::state() {
  const ncclResult_t error = spoke_.error();
  if (error != ncclSuccess) return error;
  const hvd::Lock lock(mutex_);
  return polls_left_ > 0 ? ncclInProgress : outcome_;
}

ncclResult_t Communicator::launch(const std::vector<Call>& calls, CUstream stream) {
  const ContextScope context(gpu_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().is_capturing(stream, &status) != CUDA_SUCCESS) {
    return ncclUnhandledCudaError;
  }
  const bool is_captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
  auto work = std::make_unique<Work>();
  work->communicator = shared_from_this();
  work->calls = calls;
  work->is_captured = is_captured;
  if (!is_captured) {
    const hvd::Lock lock(mutex_);
    work->turn = launched_++;
  }
  Work* const argument = work.get();
  if (is_captured) {
    keep(std::move(work));
  } else {
    static_cast<void>(work.release());  // run() deletes it, perhaps before the launch returns
  }
  const CUresult result = driver().launch_host_function(stream, run, argument);
  return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

// Graphs keep the pointer, and say nothing when they end.
void Communicator::keep(std::unique_ptr<Work> work) {
  static hvd::Mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<Work>>;
  const hvd::Lock lock(mutex);
  kept->push_back(std::move(work));
}

void CUDA_CB Communicator::run(void* argument) {
  auto* work = static_cast<Work*>(argument);
  const CommunicatorPtr communicator = work->communicator;
  if (work->is_captured) return communicator->perform(*work);
  const std::unique_ptr<Work> owned(work);
  communicator->perform(*work);
}

void Communicator::perform(const Work& work) {
  if (take_turn(work)) {
    const GpuRoom room(gpu_.name, [this] { return spoke_.is_aborted(); });
    if (room.is_there()) run_kernel(work);
  }
  end_turn(work);
}

void Communicator::run_kernel(const Work& work) {
  const Fate fate = next_fate(rank());
  if (fate.delay_us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(fate.delay_us));
  }
  if (fate.async_error != ncclSuccess) {
    spoke_.fail(fate.async_error, "rank " + std::to_string(rank()) + ": ordered by the test");
  }
  if (fate.hangs || fate.async_error != ncclSuccess) {
    spoke_.wait_for_abort();
  } else {
    move_bytes(work);
  }
}

bool Communicator::take_turn(const Work& work) {
  const hvd::Lock lock(mutex_);
  while (is_running_ || (!work.is_captured && turn_ != work.turn)) {
    changed_.wait_until(mutex_, hvd::kForever);
  }
  is_running_ = true;
  return !spoke_.is_aborted();
}

void Communicator::end_turn(const Work& work) {
  {
    const hvd::Lock lock(mutex_);
    is_running_ = false;
    if (!work.is_captured) ++turn_;
  }
  changed_.notify_all();
}

void Communicator::move_bytes(const Work& work) {
  std::vector<std::uint64_t> tickets;
  for (const Call& call : work.calls) {
    tickets.push_back(spoke_.send(call.operation, call.send, call.send_bytes));
  }
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    Bytes answer;
    if (!spoke_.wait(tickets[i], answer)) return;
    void* receive = work.calls[i].receive;
    if (receive != nullptr && !answer.empty()) {
      std::memcpy(receive, answer.data(), answer.size());
    }
  }
}

ncclResult_t Communicator::agree(const Operation& operation, Bytes& answer) {
  if (spoke_.wait_or_fail(spoke_.send(operation, nullptr, 0), answer)) return ncclSuccess;
  const ncclResult_t error = spoke_.error();
  return error == ncclSuccess ? ncclInternalError : error;
}

ncclResult_t Communicator::split(const Operation& operation, const CommunicatorPtr& child) {
  Bytes answer;
  const ncclResult_t result = agree(operation, answer);
  if (result != ncclSuccess || child == nullptr) return result;
  Child place;
  std::memcpy(&place, answer.data(), sizeof(place));
  child->rank_ = place.rank;
  child->size_ = place.size;
  const ncclResult_t joined = child->connect(place.id);
  child->set_outcome(joined);
  return joined;
}

void Communicator::abort() {
  spoke_.abort();
  if (background_.joinable()) background_.join();
  spoke_.stop();  // here and not at the end, which graphs may put off for ever
  changed_.notify_all();
}

bool Communicator::drain() {
  const hvd::Lock lock(mutex_);
  while (turn_ != launched_ || is_running_) {
    if (spoke_.is_aborted() || spoke_.error() != ncclSuccess) return false;
    // An error of the connection rings another bell.
    changed_.wait_until(mutex_, hvd::Deadline::after(std::chrono::milliseconds(20)));
  }
  return true;
}

ncclRedOp_t Communicator::add_scale(ncclDataType_t dtype, std::uint64_t bits) {
  const hvd::Lock lock(mutex_);
  int op = ncclNumOps;
  while (scales_.contains(op)) ++op;
  scales_[op] = {dtype, bits};
  return static_cast<ncclRedOp_t>(op);
}

bool Communicator::remove_scale(ncclRedOp_t op) {
  const hvd::Lock lock(mutex_);
  return scales_.erase(static_cast<int>(op)) == 1;
}

bool Communicator::read_op(ncclRedOp_t op, Operation& operation) {
  static constexpr Fold kBuiltIn[] = {Fold::kSum, Fold::kProduct, Fold::kMax, Fold::kMin,
                                      Fold::kAverage};
  const int index = static_cast<int>(op);
  if (index >= 0 && index < ncclNumOps) {
    operation.fold = kBuiltIn[index];
    return true;
  }
  const hvd::Lock lock(mutex_);
  const auto found = scales_.find(index);
  if (found == scales_.end() || found->second.dtype != operation.dtype) return false;
  operation.fold = Fold::kScaledSum;
  operation.scalar = found->second.bits;
  return true;
}

bool Communicator::begin_call() {
  const hvd::Lock lock(mutex_);
  if (is_called_) return false;
  is_called_ = true;
  return true;
}

void Communicator::end_call() {
  const hvd::Lock lock(mutex_);
  is_called_ = false;
}

}  // namespace double_nccl
