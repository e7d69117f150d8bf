// SPDX-License-Identifier: Apache-2.0
// Saving and loading what compression keeps between steps.
#include <string>
#include <utility>
#include <vector>

#include "optim/gradient_set.h"

namespace hvd {

namespace {

constexpr std::uint32_t kMagic = 0x47445648;  // "HVDG"
constexpr std::uint32_t kVersion = 1;

}  // namespace

Bytes GradientSet::save() const {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<std::uint32_t>(gradients_.size()));
  for (const Entry& entry : gradients_) {
    const bool has_state = entry.memory != nullptr && entry.memory->compressor != nullptr;
    ByteWriter state;
    if (has_state) entry.memory->compressor->save(state);
    writer.put_string(entry.gradient.name);
    writer.put(has_state ? entry.compression.method : CompressionMethod::kNone);
    writer.put(static_cast<std::uint64_t>(state.bytes().size()));
    writer.put_raw(state.bytes());
  }
  return writer.take();
}

Result<std::shared_ptr<GradientSet::Memory>> GradientSet::load_memory(const Entry& entry,
                                                                      ByteReader& reader) {
  HVD_TRY_ASSIGN(const std::string name, reader.get_string());
  HVD_TRY_ASSIGN(const auto method, reader.get<CompressionMethod>());
  HVD_TRY_ASSIGN(const auto bytes, reader.get<std::uint64_t>());
  HVD_TRY_ASSIGN(const auto raw, reader.get_raw(bytes));
  HVD_TRY_ASSIGN(auto compressor,
                 make_compressor(entry.compression, entry.gradient.name, entry.gradient.tensor));
  const auto own = compressor == nullptr ? CompressionMethod::kNone : entry.compression.method;
  if (name != entry.gradient.name || method != own) {
    return error(
        Code::kInvalidArgument,
        "the saved state is of '{}' with compression {}, this set has '{}' with {}; choose "
        "the same before loading",
        name, name_of(method), entry.gradient.name, name_of(own));
  }
  if (compressor == nullptr) return std::shared_ptr<Memory>();
  ByteReader part(raw);
  if (const Status status = compressor->load(part); !status.is_ok()) {
    return status.with_context(format_text("gradient '{}'", name));
  }
  if (part.remaining() != 0) {
    return error(
        Code::kInvalidArgument,
        "gradient '{}': the saved state has {} bytes more than compression {} keeps; choose "
        "the same parameters before loading, as the momentum of top-k",
        name, part.remaining(), name_of(method));
  }
  auto memory = std::make_shared<Memory>();
  memory->compressor = std::move(compressor);
  return memory;
}

Status GradientSet::load(std::span<const std::byte> state) {
  ByteReader reader(state);
  const auto magic = reader.get<std::uint32_t>();
  const auto version = reader.get<std::uint32_t>();
  const auto count = reader.get<std::uint32_t>();
  if (!count.is_ok() || magic.value() != kMagic || version.value() != kVersion) {
    return error(Code::kInvalidArgument, "these {} bytes are not the saved state of gradients",
                 state.size());
  }
  if (count.value() != gradients_.size()) {
    return error(Code::kInvalidArgument, "the saved state has {} gradients, this set {}",
                 count.value(), gradients_.size());
  }
  // First into new memory, all of it, so that a state which does not fit changes nothing.
  std::vector<std::shared_ptr<Memory>> loaded;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    HVD_TRY(check_idle(i));
    auto memory = load_memory(gradients_[i], reader);
    if (!memory.is_ok()) {  // a state cut short is the caller's, not a defect of ours
      return {Code::kInvalidArgument, memory.status().message()};
    }
    loaded.push_back(std::move(memory).value());
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i) gradients_[i].memory = std::move(loaded[i]);
  return Status::ok();
}

}  // namespace hvd
