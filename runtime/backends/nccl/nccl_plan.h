// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collective/adasum_plan.h"
#include "collective/batch.h"
#include "collective/communicator.h"
#include "collective/moving_counts.h"
#include "collective/pack_plan.h"

namespace hvd {

/// What NCCL folds with. kPreMulSum: a sum of products with one factor.
enum class NcclFold { kSum, kPreMulSum, kProduct, kMin, kMax };
enum class NcclVerb { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

/// Memory of a batch, before its address is known.
struct NcclPlace {
  enum class Where { kInput, kOutput, kBucket, kSpare };
  Where where = Where::kInput;
  std::size_t segment = 0;  ///< Of inputs and outputs.
  std::size_t offset = 0;   ///< Bytes.
};

/// One call of NCCL.
struct NcclStep {
  NcclVerb verb = NcclVerb::kAllReduce;
  DataType dtype = DataType::kUint8;  ///< One that NCCL has.
  NcclFold fold = NcclFold::kSum;
  std::size_t count = 0;
  int peer = 0;  ///< The root, or the other end.
  NcclPlace from;
  NcclPlace to;
};

/// A tensor, or this rank's share of it.
struct NcclPiece {
  std::size_t segment = 0;
  std::size_t offset = 0;  ///< Bytes into the bucket.
  std::size_t count = 0;   ///< Elements of the tensor.
};

/// Adasum, with the gradients of this rank at the begin of the bucket: level by level a rank and
/// its peer send each other what they combine. The same order as on the host.
struct NcclAdasum {
  /// Bytes of the gradients, from the begin of the bucket.
  struct Slice {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// A group of calls, and what follows it on the device.
  struct Round {
    std::vector<NcclStep> steps;
    bool measures = false;  ///< The products of my slice with theirs.
    bool adds = false;      ///< Their products, of other slices, to mine.
    bool blends = false;
    bool is_lower = false;  ///< This rank is the lower one of the two whose gradients are combined.
    Slice slice;            ///< Of this rank's gradients; the peer's are at `theirs`.
  };
  DataType dtype = DataType::kFloat32;
  std::vector<AdasumPair> pairs;
  std::size_t theirs = 0;  ///< Where the peer's gradients are in the bucket.
  std::size_t their_dots =
      0;                    ///< And products that a peer sends: they end at the scratch memory...
  std::size_t scratch = 0;  ///< ... which begins with mine.
  std::vector<Round> rounds;
};

/// What a batch is to NCCL: pack, one group of calls, unpack, scale.
struct NcclPlan {
  std::size_t bucket_bytes = 0;     ///< Equal on all ranks, whose buckets grow together.
  std::vector<NcclPiece> packed;    ///< From the inputs into the bucket...
  PackFormat pack;                  ///< ... so.
  double integer_prescale = 1.0;    ///< Of what is in the bucket then.
  std::vector<NcclStep> steps;      ///< One group.
  NcclAdasum adasum;                ///< Or these.
  double premul = 1.0;              ///< The factor of kPreMulSum.
  std::vector<NcclPiece> unpacked;  ///< From the bucket into the outputs...
  PackFormat unpack;                ///< ... so.
  std::vector<NcclPiece> scaled;    ///< Outputs that are scaled in place at last.
  double scale = 1.0;
  int divisor = 1;  ///< Of integers, beside the scale.
  /// A neutral rank: pieces of the bucket that are filled with what changes no result.
  std::vector<NcclPiece> filled;
  /// ... and of memory that stands in for tensors that the others do not pack.
  std::vector<NcclPiece> filled_spare;
  std::size_t spare_bytes = 0;
  DataType fill_dtype = DataType::kUint8;
  ReduceOp fill_op = ReduceOp::kSum;
};

struct NcclPlanOptions {
  /// Tensors of up to this many bytes share a bucket where a batch has several; the same on all
  /// ranks.
  std::size_t pack_bytes = std::size_t{1} << 20;
  /// As much goes through the bucket at once, where a batch can be cut; the same on all ranks. More
  /// than tensors that are fused have by default, with the gaps between them.
  std::size_t part_bytes = std::size_t{80} << 20;
  /// Adasum shares the work of a batch in slices of at least so many bytes; the same on all ranks.
  std::size_t slice_bytes = std::size_t{256} << 10;
};

/// Ok, or kUnsupported with the sentence why NCCL cannot do it. Pure.
Status check_nccl_operation(const Operation& operation, DataType dtype);
/// True where ranks must tell each other their counts before plan_nccl().
bool needs_counts(const Operation& operation);

/// The tensors of a batch in parts that are planned, and go through the stream, one after the
/// other: none needs a bucket of more than `part_bytes`. One part where elements do not stand alone
/// (Adasum), each rank gets others (reducescatter) or nothing is reduced. Pure, as plan_nccl().
std::vector<std::vector<Segment>> cut_for_bucket(const Batch& batch,
                                                 const Communicator& communicator,
                                                 const NcclPlanOptions& options);

/// Only what check_nccl_operation() accepts. `counts` of all ranks where needs_counts(), else null.
/// Pure: what ranks do together is the same on all of them.
NcclPlan plan_nccl(const Batch& batch, const Communicator& communicator, const MovingCounts* counts,
                   const NcclPlanOptions& options);

}  // namespace hvd
