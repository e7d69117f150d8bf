// SPDX-License-Identifier: Apache-2.0
/// The C++ interface of libhvd, all of it: header only, over the C interface in hvd.h.
///
///     hvd::Context hvd;                                      // joins the job
///     hvd::DistributedOptimizer optimizer(parameters, hvd::Sgd{.learning_rate = 0.1});
///     hvd::broadcast(optimizer.parameters(), 0);             // all ranks start equal
///     for (...) { backward(...); optimizer.step(); }         // averages, then updates
#pragma once

#include "hvd/collectives.hpp"
#include "hvd/gpu.hpp"
#include "hvd/gpu_gradients.hpp"
#include "hvd/memory.hpp"
#include "hvd/optimizer.hpp"
#include "hvd/process_set.hpp"
#include "hvd/rows.hpp"
#include "hvd/sparse.hpp"
