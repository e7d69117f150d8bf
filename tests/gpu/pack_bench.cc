// SPDX-License-Identifier: Apache-2.0
// pack_bench [--bucket-mib N] [--repeats N] LIST...: what packing and unpacking the tensors of each
// list reaches, beside the device's own copy of as many bytes. A list has the elements of a tensor
// on each line. Buckets of a list are one piece of memory, as those of a process set: small ones
// stay in the device's cache, and may beat the copy. Exit code 77 where there is no GPU.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "collective/pack_plan.h"

namespace hvd {
namespace {

constexpr std::size_t kTensorAlignment = 512;  // as PyTorch's allocator gives it
constexpr std::uint8_t kFill = 0x3c;  // floats of 0.01: zeros may be quicker than numbers are
constexpr double kMebibyte = 1024.0 * 1024.0;

struct Settings {
  std::size_t bucket_bytes = std::size_t{128} << 20;
  int repeats = 50;
  std::vector<std::string> lists;
};

/// At once: a bench that is ended early has told what it found.
void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Ends the program: there is nothing to go on with.
template <typename T>
T need(Result<T> result) {
  if (result.is_ok()) return std::move(result).value();
  print(format_text("failed: {}\n", result.status().message()));
  std::exit(1);
}
void need(const Status& status) {
  if (status.is_ok()) return;
  print(format_text("failed: {}\n", status.message()));
  std::exit(1);
}

/// Device memory that goes back at the end.
class Memory {
 public:
  Memory(Gpu& gpu, std::size_t bytes) : gpu_(gpu), address_(need(gpu.allocate(bytes))) {
    need(gpu.set_bytes(address_, kFill, bytes, nullptr));
    need(gpu.wait(*need(gpu.record(nullptr))));  // our streams do not wait for the default one
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { gpu_.deallocate(address_); }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(address_) + offset; }

 private:
  Gpu& gpu_;
  void* address_;
};

/// Seconds of the device for one run of `work`: the least of several rows of runs.
template <typename Work>
double seconds(Gpu& gpu, StreamHandle stream, int repeats, const Work& work) {
  double least = 1e9;
  for (int row = 0; row < 4; ++row) {  // the first one warms up
    need(gpu.wait(*need(gpu.record(stream))));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) work();
    need(gpu.wait(*need(gpu.record(stream))));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (row > 0) least = std::min(least, took.count() / repeats);
  }
  return least;
}

std::vector<std::size_t> read_counts(const std::string& path) {
  std::vector<std::size_t> counts;
  std::ifstream file(path);
  for (std::size_t count = 0; file >> count;) counts.push_back(count);
  if (counts.empty()) {
    print(format_text("failed: {}: no list of counts\n", path));
    std::exit(1);
  }
  return counts;
}

/// The tensors of a list in buckets: each with its own launches.
struct Buckets {
  std::vector<std::vector<PackSegment>> segments;
  std::size_t bytes = 0;  ///< Of the longest bucket.
  std::size_t elements = 0;
};

Buckets fill_buckets(const Memory& tensors, const std::vector<std::size_t>& counts,
                     std::size_t bucket_bytes, DataType in_bucket) {
  Buckets buckets;
  std::size_t place = 0;
  std::size_t end = bucket_bytes + 1;
  for (const std::size_t count : counts) {
    const std::size_t bytes = count * size_of(in_bucket);
    std::size_t offset = next_slot(end);
    if (offset + bytes > bucket_bytes) {
      buckets.segments.emplace_back();
      offset = 0;
    }
    buckets.segments.back().push_back({tensors.at(place), offset, count});
    end = offset + bytes;
    buckets.bytes = std::max(buckets.bytes, end);
    buckets.elements += count;
    place += (count * sizeof(float) + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  return buckets;
}

/// One list, packed and unpacked in one format.
void measure(Gpu& gpu, StreamHandle stream, const Settings& settings,
             const std::vector<std::size_t>& counts, const PackFormat& format,
             std::string_view what) {
  std::size_t tensor_bytes = 0;
  for (const std::size_t count : counts) tensor_bytes += count * sizeof(float) + kTensorAlignment;
  const Memory tensors(gpu, tensor_bytes);
  const Buckets buckets = fill_buckets(tensors, counts, settings.bucket_bytes, format.bucket);
  const Memory bucket(gpu, buckets.bytes);
  std::vector<std::vector<PackLaunch>> packs;
  std::vector<std::vector<PackLaunch>> unpacks;
  std::size_t most_launches = 0;
  for (const auto& segments : buckets.segments) {
    packs.push_back(plan_pack(segments, bucket.at(0), format));
    unpacks.push_back(plan_unpack(segments, bucket.at(0), format));
    most_launches = std::max(most_launches, packs.back().size());
  }
  const auto run = [&](const auto& plans) {
    for (const auto& launches : plans) need(enqueue(gpu, launches, stream));
  };
  const std::size_t moved = buckets.elements * (size_of(format.tensor) + size_of(format.bucket));
  const Memory from(gpu, moved / 2);
  const Memory to(gpu, moved / 2);
  const double copy = seconds(gpu, stream, settings.repeats,
                              [&] { need(gpu.copy(to.at(0), from.at(0), moved / 2, stream)); });
  const double pack = seconds(gpu, stream, settings.repeats, [&] { run(packs); });
  const double unpack = seconds(gpu, stream, settings.repeats, [&] { run(unpacks); });
  const auto gigabytes = [&](double took) { return static_cast<double>(moved) / took / 1e9; };
  print(format_text("  {:28} {:9.1f} {:9.1f} {:9.1f} {:8.2f} {:8.2f} {:8} {:8}\n", what,
                    gigabytes(copy), gigabytes(pack), gigabytes(unpack), copy / pack, copy / unpack,
                    packs.size(), most_launches));
}

void measure_list(Gpu& gpu, StreamHandle stream, const Settings& settings,
                  const std::string& path) {
  const std::vector<std::size_t> counts = read_counts(path);
  print(format_text("{}: {} tensors\n  {:28} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}\n", path,
                    counts.size(), "GB/s, read and written", "copy", "pack", "unpack", "pack/cp",
                    "unp./cp", "buckets", "launches"));
  using enum DataType;
  measure(gpu, stream, settings, counts, {kFloat32, kFloat32, 1.0}, "float32 as it is");
  measure(gpu, stream, settings, counts, {kFloat32, kFloat32, 0.25}, "float32 scaled");
  measure(gpu, stream, settings, counts, {kFloat32, kFloat16, 0.25}, "float32 scaled to float16");
  measure(gpu, stream, settings, counts, {kFloat32, kBfloat16, 0.25}, "float32 scaled to bfloat16");
}

int run(const Settings& settings) {
  const auto gpus = find_gpus(GpuDriverSettings::from(Environment::of_process()));
  const auto found = gpus->open({gpu_kind_of_build(), 0});
  if (!found.is_ok()) {
    print(format_text("skipped: {}\n", found.status().message()));
    return 77;
  }
  Gpu& gpu = *found.value();
  const StreamHandle stream = need(gpu.create_stream());
  print(format_text("{}; {} repeats, buckets of {:g} MiB\n", gpu.facts().name, settings.repeats,
                    static_cast<double>(settings.bucket_bytes) / kMebibyte));
  for (const std::string& list : settings.lists) measure_list(gpu, stream, settings, list);
  gpu.destroy_stream(stream);
  return 0;
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  hvd::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--bucket-mib" && has_value) {
      settings.bucket_bytes =
          static_cast<std::size_t>(std::strtod(argv[++i], nullptr) * hvd::kMebibyte);
    } else if (argument == "--repeats" && has_value) {
      settings.repeats = std::atoi(argv[++i]);
    } else {
      settings.lists.emplace_back(argument);
    }
  }
  return hvd::run(settings);
}
