// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/bytes.h"

namespace hvd {
namespace {

std::string place_of(const PeerInfo& peer) {
  return format_text("rank {} on host {}", peer.rank, peer.host);
}

/// Why the MPI of `facts` cannot serve, seen beside that of rank 0; empty where it can.
std::string obstacle(const MpiFacts& facts, const MpiFacts& first, std::size_t ranks) {
  if (!facts.problem.empty()) return facts.problem;
  if (facts.is_wanted != first.is_wanted) return "HVD_BACKEND=mpi is not set on every rank";
  if (facts.library != first.library) {
    return format_text("it has {}, rank 0 has {}", facts.library, first.library);
  }
  if (facts.is_initialised != first.is_initialised) {
    return "MPI is initialised on some ranks and not on others";
  }
  if (!facts.is_initialised) return {};
  if (!facts.is_thread_multiple) {
    return format_text(
        "the program initialised MPI with {}; call MPI_Init_thread with MPI_THREAD_MULTIPLE before "
        "hvd starts",
        facts.thread_level);
  }
  if (static_cast<std::size_t>(facts.size) != ranks) {
    return format_text("MPI_COMM_WORLD has {} ranks and the job {}", facts.size, ranks);
  }
  return {};
}

}  // namespace

std::string encode(const MpiFacts& facts) {
  ByteWriter writer;
  writer.put(facts.is_wanted);
  writer.put(facts.is_initialised);
  writer.put(facts.is_thread_multiple);
  writer.put(facts.size);
  writer.put(facts.rank);
  writer.put_string(facts.library);
  writer.put_string(facts.thread_level);
  writer.put_string(facts.fabric);
  writer.put_string(facts.problem);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<MpiFacts> decode_facts(std::string_view bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  MpiFacts facts;
  HVD_TRY_ASSIGN(const auto wanted, reader.get<std::uint8_t>());
  HVD_TRY_ASSIGN(const auto initialised, reader.get<std::uint8_t>());
  HVD_TRY_ASSIGN(const auto multiple, reader.get<std::uint8_t>());
  facts.is_wanted = wanted != 0;
  facts.is_initialised = initialised != 0;
  facts.is_thread_multiple = multiple != 0;
  HVD_TRY_ASSIGN(facts.size, reader.get<int>());
  HVD_TRY_ASSIGN(facts.rank, reader.get<int>());
  HVD_TRY_ASSIGN(facts.library, reader.get_string());
  HVD_TRY_ASSIGN(facts.thread_level, reader.get_string());
  HVD_TRY_ASSIGN(facts.fabric, reader.get_string());
  HVD_TRY_ASSIGN(facts.problem, reader.get_string());
  return facts;
}

MpiPlan plan_mpi(std::span<const PeerInfo> peers) {
  const bool several =
      std::any_of(peers.begin(), peers.end(), [](const PeerInfo& peer) { return peer.node > 0; });
  if (!several) return {false, "mpi serves several nodes, and all ranks live on one"};
  std::vector<MpiFacts> all;
  for (const PeerInfo& peer : peers) {
    auto facts = decode_facts(peer.mpi);
    if (!facts.is_ok()) return {false, format_text("{}: no MPI facts", place_of(peer))};
    all.push_back(std::move(facts).value());
  }
  const MpiFacts& first = all.front();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string why = obstacle(all[i], first, all.size());
    if (!why.empty()) return {false, format_text("{}: {}", place_of(peers[i]), why)};
  }
  const std::string library =
      format_text("{}, {}", first.library,
                  first.is_initialised ? "which the program initialised" : "started by hvd");
  if (first.is_wanted) return {true, library};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].fabric.empty()) continue;
    return {false,
            format_text("{} has no fabric that {} would know better than TCP; HVD_BACKEND=mpi "
                        "takes it all the same",
                        place_of(peers[i]), first.library)};
  }
  return {true, format_text("{}, and fabric {}", library, first.fabric)};
}

std::string find_fabric(const std::string& root) {
  // InfiniBand, RoCE, Omni-Path and EFA; Slingshot; Aries.
  constexpr std::array<const char*, 3> kFolders = {"class/infiniband", "class/cxi", "class/gni"};
  for (const char* folder : kFolders) {
    std::error_code missing;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(root + "/" + folder, missing), end;
         !missing && entry != end; entry.increment(missing)) {
      names.push_back(entry->path().filename().string());
    }
    if (!names.empty()) return *std::min_element(names.begin(), names.end());
  }
  return {};
}

}  // namespace hvd
