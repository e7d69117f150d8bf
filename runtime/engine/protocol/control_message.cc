// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/control_message.h"

#include <algorithm>
#include <array>

namespace hvd {
namespace {

/// Writes one kind of message; overloaded by kind.
struct Writer {
  ByteWriter& w;

  void operator()(const Announce& m) {
    w.put_string(m.name);
    w.put(static_cast<std::uint8_t>(m.cacheable));
    w.put(static_cast<std::uint8_t>(m.is_place));
    encode(w, m.description);
    w.put_vector(m.ranks.words());
  }
  void operator()(const Ready& m) { w.put_vector(m.ids); }
  void operator()(const Partial& m) {
    w.put(m.id);
    w.put_vector(m.ranks.words());
    w.put(m.waited_ms);
  }
  void operator()(const Leave& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    put_owed(m.owed);
  }
  void operator()(const Define& m) {
    w.put(m.id);
    w.put_string(m.name);
    encode(w, m.description);
  }
  void operator()(const Run& m) {
    w.put_vector(m.ids);
    w.put_string(m.name);
    put_set(m.process_set);
    w.put(static_cast<std::int32_t>(m.divisor));
    w.put(m.bucket);
    w.put(static_cast<std::uint8_t>(m.description ? 1 : 0));
    if (m.description) encode(w, *m.description);
  }
  void operator()(const Failure& m) {
    w.put_string(m.name);
    w.put(static_cast<std::int32_t>(m.code));
    w.put_string(m.text);
    put_set(m.process_set);
  }
  void operator()(const Left& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    w.put(static_cast<std::uint8_t>(m.owes ? 1 : 0));
  }
  void operator()(const Lost& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    w.put_string(m.text);
  }
  void operator()(const Shutdown&) {}
  void operator()(const Heartbeat&) {}
  void operator()(const Farewell& m) { w.put_string(m.text); }
  void operator()(const Brought& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    w.put(m.round);
    w.put(m.key);
    w.put(m.position);
    w.put(static_cast<std::uint32_t>(m.bytes.size()));
    w.put_raw(m.bytes);
  }
  void operator()(const WantedBack& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    w.put(m.round);
  }
  void operator()(const SetAdded& m) {
    put_set(m.process_set);
    w.put_vector(m.ranks.words());
  }
  void operator()(const SetRemoved& m) { put_set(m.process_set); }

  void operator()(const Joining& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    put_set(m.process_set);
    w.put(m.epoch);
    w.put(static_cast<std::uint8_t>(m.active_average ? 1 : 0));
    put_owed(m.owed);
  }
  void operator()(const Joined& m) {
    w.put(static_cast<std::int32_t>(m.rank));
    put_set(m.process_set);
  }
  void operator()(const JoinEnd& m) {
    put_set(m.process_set);
    w.put(static_cast<std::int32_t>(m.rank));
    w.put(static_cast<std::int32_t>(m.code));
    w.put_string(m.text);
  }
  void operator()(const Urge& m) {
    put_set(m.process_set);
    w.put_string(m.text);
  }
  void operator()(const Frozen& m) {
    put_set(m.process_set);
    w.put_vector(m.ids);
    w.put_vector(m.ends);
  }
  void operator()(const Thawed& m) {
    put_set(m.process_set);
    w.put_string(m.text);
  }

  void operator()(const GiveUp& m) { w.put_string(m.text); }
  void operator()(const Evict& m) { w.put_vector(m.ids); }
  void operator()(const Evicted& m) { w.put(m.ranks); }

  void put_set(int process_set) { w.put(static_cast<std::int32_t>(process_set)); }
  void put_owed(const std::vector<Owed>& owed) {
    w.put(static_cast<std::uint32_t>(owed.size()));
    for (const Owed& item : owed) {
      put_set(item.process_set);
      w.put_string(item.name);
      w.put(item.uses);
    }
  }
};

/// Reads the body of one kind; one function a kind, in the order of the variant.
struct Reader {
  ByteReader& r;
  int size;

  Result<RankSet> ranks() {
    HVD_TRY_ASSIGN(auto words, r.get_vector<std::uint64_t>());
    return RankSet::from_words(std::move(words), size);
  }
  Result<int> rank() {
    HVD_TRY_ASSIGN(const auto value, r.get<std::int32_t>());
    if (value < 0 || value >= size) {
      return error(Code::kInternal, "control message names rank {} of {}", value, size);
    }
    return static_cast<int>(value);
  }
  Result<int> process_set() {
    HVD_TRY_ASSIGN(const auto value, r.get<std::int32_t>());
    if (value < 0) {
      return error(Code::kInternal, "control message names process set {}", value);
    }
    return static_cast<int>(value);
  }
  Result<std::vector<Owed>> owed() {
    HVD_TRY_ASSIGN(const auto count, r.get<std::uint32_t>());
    std::vector<Owed> list;
    for (std::uint32_t i = 0; i < count; ++i) {
      Owed item;
      HVD_TRY_ASSIGN(item.process_set, process_set());
      HVD_TRY_ASSIGN(item.name, r.get_string());
      HVD_TRY_ASSIGN(item.uses, r.get<std::uint32_t>());
      list.push_back(std::move(item));
    }
    return list;
  }
  Result<ControlMessage> announce() {
    Announce m;
    HVD_TRY_ASSIGN(m.name, r.get_string());
    HVD_TRY_ASSIGN(const auto cacheable, r.get<std::uint8_t>());
    m.cacheable = cacheable != 0;
    HVD_TRY_ASSIGN(const auto is_place, r.get<std::uint8_t>());
    m.is_place = is_place != 0;
    HVD_TRY_ASSIGN(m.description, decode_description(r));
    HVD_TRY_ASSIGN(m.ranks, ranks());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> ready() {
    HVD_TRY_ASSIGN(auto ids, r.get_vector<std::uint32_t>());
    return ControlMessage(Ready{std::move(ids)});
  }
  Result<ControlMessage> partial() {
    HVD_TRY_ASSIGN(const auto id, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(auto set, ranks());
    HVD_TRY_ASSIGN(const auto waited_ms, r.get<std::uint32_t>());
    return ControlMessage(Partial{id, std::move(set), waited_ms});
  }
  Result<ControlMessage> leave() {
    HVD_TRY_ASSIGN(const int value, rank());
    HVD_TRY_ASSIGN(auto list, owed());
    return ControlMessage(Leave{value, std::move(list)});
  }
  Result<ControlMessage> define() {
    Define m;
    HVD_TRY_ASSIGN(m.id, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(m.name, r.get_string());
    HVD_TRY_ASSIGN(m.description, decode_description(r));
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> run() {
    Run m;
    HVD_TRY_ASSIGN(m.ids, r.get_vector<std::uint32_t>());
    HVD_TRY_ASSIGN(m.name, r.get_string());
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.divisor, r.get<std::int32_t>());
    if (m.divisor < 0 || m.divisor > size) {
      return error(Code::kInternal, "control message divides by {} of {} ranks", m.divisor, size);
    }
    HVD_TRY_ASSIGN(m.bucket, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(const auto described, r.get<std::uint8_t>());
    if (described != 0) {
      HVD_TRY_ASSIGN(m.description, decode_description(r));
    }
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> failure() {
    Failure m;
    HVD_TRY_ASSIGN(m.name, r.get_string());
    HVD_TRY_ASSIGN(const auto code, r.get<std::int32_t>());
    if (code <= 0 || code > static_cast<int>(Code::kInternal)) {
      return error(Code::kInternal, "control message holds the invalid status code {}", code);
    }
    m.code = static_cast<Code>(code);
    HVD_TRY_ASSIGN(m.text, r.get_string());
    HVD_TRY_ASSIGN(m.process_set, process_set());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> left() {
    HVD_TRY_ASSIGN(const int value, rank());
    HVD_TRY_ASSIGN(const auto owes, r.get<std::uint8_t>());
    return ControlMessage(Left{value, owes != 0});
  }
  Result<ControlMessage> lost() {
    HVD_TRY_ASSIGN(const int value, rank());
    HVD_TRY_ASSIGN(auto text, r.get_string());
    return ControlMessage(Lost{value, std::move(text)});
  }
  Result<ControlMessage> shutdown() { return ControlMessage(Shutdown{}); }
  Result<ControlMessage> heartbeat() { return ControlMessage(Heartbeat{}); }
  Result<ControlMessage> set_added() {
    HVD_TRY_ASSIGN(const int id, process_set());
    HVD_TRY_ASSIGN(auto set, ranks());
    return ControlMessage(SetAdded{id, std::move(set)});
  }
  Result<ControlMessage> set_removed() {
    HVD_TRY_ASSIGN(const int id, process_set());
    return ControlMessage(SetRemoved{id});
  }
  Result<ControlMessage> joining() {
    Joining m;
    HVD_TRY_ASSIGN(m.rank, rank());
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.epoch, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(const auto active, r.get<std::uint8_t>());
    m.active_average = active != 0;
    HVD_TRY_ASSIGN(m.owed, owed());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> joined() {
    HVD_TRY_ASSIGN(const int value, rank());
    HVD_TRY_ASSIGN(const int id, process_set());
    return ControlMessage(Joined{value, id});
  }
  Result<ControlMessage> join_end() {
    JoinEnd m;
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.rank, rank());
    HVD_TRY_ASSIGN(const auto code, r.get<std::int32_t>());
    if (code < 0 || code > static_cast<int>(Code::kInternal)) {
      return error(Code::kInternal, "control message holds the invalid status code {}", code);
    }
    m.code = static_cast<Code>(code);
    HVD_TRY_ASSIGN(m.text, r.get_string());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> urge() {
    Urge m;
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.text, r.get_string());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> frozen() {
    Frozen m;
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.ids, r.get_vector<std::uint32_t>());
    HVD_TRY_ASSIGN(m.ends, r.get_vector<std::uint32_t>());
    const bool ascend = std::is_sorted(m.ends.begin(), m.ends.end());
    if (!ascend || (m.ends.empty() ? 0 : m.ends.back()) != m.ids.size()) {
      return error(Code::kInternal,
                   "control message has buckets that do not end where they should");
    }
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> thawed() {
    Thawed m;
    HVD_TRY_ASSIGN(m.process_set, process_set());
    HVD_TRY_ASSIGN(m.text, r.get_string());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> give_up() {
    HVD_TRY_ASSIGN(auto text, r.get_string());
    return ControlMessage(GiveUp{std::move(text)});
  }
  Result<ControlMessage> evict() {
    HVD_TRY_ASSIGN(auto ids, r.get_vector<std::uint32_t>());
    return ControlMessage(Evict{std::move(ids)});
  }
  Result<ControlMessage> evicted() {
    HVD_TRY_ASSIGN(const auto ranks, r.get<std::uint32_t>());
    return ControlMessage(Evicted{ranks});
  }
  Result<ControlMessage> farewell() {
    HVD_TRY_ASSIGN(auto text, r.get_string());
    return ControlMessage(Farewell{std::move(text)});
  }
  Result<ControlMessage> brought() {
    Brought m;
    HVD_TRY_ASSIGN(m.rank, rank());
    HVD_TRY_ASSIGN(m.round, r.get<std::uint64_t>());
    HVD_TRY_ASSIGN(m.key, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(m.position, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(const auto count, r.get<std::uint32_t>());
    HVD_TRY_ASSIGN(const auto raw, r.get_raw(count));
    m.bytes.assign(raw.begin(), raw.end());
    return ControlMessage(std::move(m));
  }
  Result<ControlMessage> wanted_back() {
    WantedBack m;
    HVD_TRY_ASSIGN(m.rank, rank());
    HVD_TRY_ASSIGN(m.round, r.get<std::uint64_t>());
    return ControlMessage(m);
  }
};

using ReadKind = Result<ControlMessage> (Reader::*)();
constexpr std::array<ReadKind, std::variant_size_v<ControlMessage>> kReaders = {
    &Reader::announce,    &Reader::ready,    &Reader::partial,   &Reader::leave,
    &Reader::define,      &Reader::run,      &Reader::failure,   &Reader::left,
    &Reader::lost,        &Reader::shutdown, &Reader::heartbeat, &Reader::set_added,
    &Reader::set_removed, &Reader::joining,  &Reader::joined,    &Reader::join_end,
    &Reader::urge,        &Reader::frozen,   &Reader::thawed,    &Reader::give_up,
    &Reader::evict,       &Reader::evicted,  &Reader::farewell,  &Reader::brought,
    &Reader::wanted_back,
};

}  // namespace

Bytes encode(const ControlMessage& message) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(message.index()));
  std::visit(Writer{writer}, message);
  return writer.take();
}

Result<ControlMessage> decode_control_message(std::span<const std::byte> bytes, int size) {
  ByteReader reader(bytes);
  HVD_TRY_ASSIGN(const auto index, reader.get<std::uint8_t>());
  if (index >= kReaders.size()) {
    return error(Code::kInternal, "control message of unknown kind {}", index);
  }
  Reader kind_reader{reader, size};
  HVD_TRY_ASSIGN(auto message, (kind_reader.*kReaders[index])());
  if (reader.remaining() != 0) {
    return error(Code::kInternal, "control message of kind {} has {} bytes too many", index,
                 reader.remaining());
  }
  return message;
}

}  // namespace hvd
