// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace double_cuda {

/// What a stream does; a code that is not success is a fault of the GPU.
using Work = std::function<CUresult()>;

/// A place in a stream, or what an event stands for. Thread-safe.
class Point {
 public:
  void reach();
  bool is_reached();
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};
/// Shared by the events and streams that wait for it.
using PointPtr = std::shared_ptr<Point>;

struct Capture;

}  // namespace double_cuda

/// A queue, and a thread that works it off. Its thread begins with the first work, and is never
/// joined: a GPU does not wait for a program either.
struct CUstream_st {
  CUstream_st(CUcontext owner, unsigned stream_flags, int stream_priority)
      : context(owner), flags(stream_flags), priority(stream_priority) {}

  const CUcontext context;
  const unsigned flags;
  const int priority;

  std::mutex mutex;
  std::condition_variable changed;
  struct Item {
    double_cuda::Work work;
    bool always;  ///< Also on a GPU with a fault: what others wait for.
    bool hangs;
  };
  std::deque<Item> items;
  bool running = false;  ///< The thread has an item.
  bool hung = false;
  bool closed = false;
  bool has_thread = false;
  /// Under the lock of captures.
  std::shared_ptr<double_cuda::Capture> capture;
};

namespace double_cuda {

CUstream make_stream(CUcontext context, unsigned flags, int priority);
/// The stream of a handle, which may mean the default stream of the current GPU; null: none.
CUstream stream_of(CUstream handle);
/// False: no such stream.
bool close_stream(CUstream stream);

/// Appends work to the stream, or to the graph that it is captured into.
CUresult put(CUstream stream, Work work);
/// As put(), never captured, also on a GPU with a fault.
void put_always(CUstream stream, Work work);
/// A point behind all that is in the stream.
PointPtr mark(CUstream stream);
/// Waits until all streams of the GPU have done what is in them now.
void wait_for_all(CUcontext context);
/// Counted as "wait".
void wait_on_host(Point& point);
void release_streams();

}  // namespace double_cuda
