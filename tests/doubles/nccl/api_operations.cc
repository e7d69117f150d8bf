// SPDX-License-Identifier: Apache-2.0
// NCCL's functions that put work into streams.
#include <nccl.h>

#include <cstring>

#include "doubles/nccl/api_call.h"

using double_nccl::ApiCall;
using double_nccl::Call;
using double_nccl::Group;
using double_nccl::Handles;
using double_nccl::Kind;
using double_nccl::Operation;
using double_nccl::size_of;

namespace {

/// Arguments of an operation; `count` elements a part, of which a tensor may have one for each
/// rank.
struct Arguments {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t dtype;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* first = static_cast<const char*>(a);
  const auto* second = static_cast<const char*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

bool is_float8(ncclDataType_t dtype) { return dtype == ncclFloat8e4m3 || dtype == ncclFloat8e5m2; }

/// Memory that overlaps must do so as NCCL's in-place rules say.
bool is_in_place_or_apart(const Arguments& given, const Call& call, int rank, int size) {
  if (call.send == nullptr || call.receive == nullptr) return true;
  const auto* send = static_cast<const char*>(call.send);
  const auto* receive = static_cast<const char*>(call.receive);
  const std::size_t part = given.count * size_of(given.dtype);
  const std::size_t offset = part * static_cast<std::size_t>(rank);
  switch (given.kind) {
    case Kind::kAllGather:
      if (send == receive + offset) return true;
      break;
    case Kind::kReduceScatter:
      if (receive == send + offset) return true;
      break;
    default:
      if (send == receive) return true;
  }
  const std::size_t receive_bytes =
      given.kind == Kind::kAllGather ? part * static_cast<std::size_t>(size) : part;
  return !overlap(send, call.send_bytes, receive, receive_bytes);
}

/// Which memory of a collective without root NCCL knows.
std::uint32_t registered_of(const Arguments& given, const Call& call, ncclComm_t comm, int size) {
  if (given.kind != Kind::kAllReduce && given.kind != Kind::kAllGather &&
      given.kind != Kind::kReduceScatter) {
    return 0;
  }
  const std::size_t part = given.count * size_of(given.dtype);
  const std::size_t parts = given.kind == Kind::kAllGather ? static_cast<std::size_t>(size) : 1;
  const bool sends = Handles::get().is_registered(comm, call.send, call.send_bytes);
  const bool receives = Handles::get().is_registered(comm, call.receive, part * parts);
  return (sends ? 1U : 0U) | (receives ? 2U : 0U);
}

/// What this rank gives and gets of an operation.
Call call_of(const Arguments& given, const Operation& operation, int rank, int size) {
  const std::size_t part = given.count * size_of(given.dtype);
  const bool is_root = rank == given.root;
  Call call{operation, given.send, part, given.receive};
  switch (given.kind) {
    case Kind::kBroadcast:
      if (!is_root) call.send = nullptr;
      break;
    case Kind::kReduce:
      if (!is_root) call.receive = nullptr;
      break;
    case Kind::kReduceScatter:
      call.send_bytes = part * static_cast<std::size_t>(size);
      break;
    case Kind::kRecv:
      call.send = nullptr;
      break;
    default:
      break;
  }
  if (call.send == nullptr) call.send_bytes = 0;
  return call;
}

ncclResult_t submit(const char* function, const Arguments& given, ncclComm_t comm,
                    cudaStream_t stream) {
  ApiCall api(function, comm);
  if (const ncclResult_t error = api.ready(); error != ncclSuccess) return error;
  const int rank = api.communicator()->rank();
  const int size = api.communicator()->size();
  if (size_of(given.dtype) == 0) return api.refuse("no such type");
  if (given.root < 0 || given.root >= size) return api.refuse("root or peer out of range");
  Operation operation;
  operation.kind = given.kind;
  operation.dtype = given.dtype;
  operation.count = given.count;
  operation.root = given.root;
  if (reduces(given.kind) && is_float8(given.dtype) &&
      (double_nccl::version() < 22'400 || api.communicator()->gpu().architecture < 90)) {
    return api.refuse("8-bit floats are added from 2.24 and sm_90 on");
  }
  if (reduces(given.kind) && !api.communicator()->read_op(given.op, operation)) {
    return api.refuse("no such reduction for the type");
  }
  const bool is_pair = given.kind == Kind::kSend || given.kind == Kind::kRecv;
  if (given.count == 0 && !is_pair) return ncclSuccess;
  const bool is_root = rank == given.root;
  Call call = call_of(given, operation, rank, size);
  call.operation.registered = registered_of(given, call, comm, size);
  const bool gives = given.kind != Kind::kRecv && (given.kind != Kind::kBroadcast || is_root);
  const bool gets = given.kind != Kind::kSend && (given.kind != Kind::kReduce || is_root);
  if (given.count > 0 && ((gives && call.send == nullptr) || (gets && call.receive == nullptr))) {
    return api.refuse("a null pointer");
  }
  if (!is_in_place_or_apart(given, call, rank, size)) {
    return api.refuse("send and receive memory overlap, and not in place");
  }
  return Group::of_this_thread().add(api.communicator(), stream, call);
}

}  // namespace

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(__func__, {Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op}, comm,
                stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(__func__, {Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root}, comm,
                stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(__func__, {Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root},
                comm, stream);
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return submit(__func__, {Kind::kBroadcast, buff, buff, count, datatype, ncclSum, root}, comm,
                stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit(__func__, {Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op}, comm,
                stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit(__func__, {Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype}, comm,
                stream);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(__func__, {Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer}, comm,
                stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(__func__, {Kind::kRecv, nullptr, recvbuff, count, datatype, ncclSum, peer}, comm,
                stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  ApiCall call(__func__, comm);
  if (const ncclResult_t error = call.ready(); error != ncclSuccess) return error;
  if (size_of(datatype) == 0) return call.refuse("no such type");
  if (residence != ncclScalarHostImmediate) {
    return call.refuse("the double takes scalars from the host alone");
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, scalar, size_of(datatype));
  *op = call.communicator()->add_scale(datatype, bits);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  ApiCall call(__func__, comm);
  if (call.error() != ncclSuccess) return call.error();
  return call.communicator()->remove_scale(op) ? ncclSuccess : call.refuse("no such reduction");
}
