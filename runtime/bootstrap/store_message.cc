// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_message.h"

namespace hvd::store_message {

namespace {

Result<Code> decode_code(ByteReader& reader) {
  HVD_TRY_ASSIGN(const auto code, reader.get<std::uint8_t>());
  if (code > static_cast<std::uint8_t>(Code::kInternal)) {
    return error(Code::kInternal, "unknown code {} in a message of the store", code);
  }
  return static_cast<Code>(code);
}

}  // namespace

Bytes encode(const Request& request) {
  ByteWriter writer;
  writer.put(request.verb);
  writer.put_string(request.key);
  writer.put_string(request.value);
  writer.put_string(request.who);
  writer.put(static_cast<std::uint8_t>(request.code));
  writer.put(request.rank);
  writer.put(request.size);
  writer.put(request.timeout_ms);
  writer.put(request.epoch);
  writer.put(request.status);
  return writer.take();
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Request request;
  HVD_TRY_ASSIGN(const auto verb, reader.get<std::uint8_t>());
  if (verb < 1 || verb > static_cast<std::uint8_t>(Verb::kAwaitNewcomers))
    return error(Code::kInternal, "unknown store request {}", verb);
  request.verb = static_cast<Verb>(verb);
  HVD_TRY_ASSIGN(request.key, reader.get_string());
  HVD_TRY_ASSIGN(request.value, reader.get_string());
  HVD_TRY_ASSIGN(request.who, reader.get_string());
  HVD_TRY_ASSIGN(request.code, decode_code(reader));
  HVD_TRY_ASSIGN(request.rank, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(request.size, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(request.timeout_ms, reader.get<std::uint64_t>());
  HVD_TRY_ASSIGN(request.epoch, reader.get<std::uint64_t>());
  HVD_TRY_ASSIGN(request.status, reader.get<std::int32_t>());
  const bool has_rank = request.verb == Verb::kGather || request.verb == Verb::kJoin ||
                        request.verb == Verb::kFail ||
                        (request.verb >= Verb::kEnter && request.verb <= Verb::kEnded);
  if (has_rank && (request.size < 1 || request.size > kMaxRanks || request.rank < 0 ||
                   request.rank >= request.size)) {
    return error(Code::kInternal, "store request from rank {} of {}", request.rank, request.size);
  }
  if (request.verb == Verb::kFail && request.code == Code::kOk) {
    return error(Code::kInternal, "rank {} fails without a cause", request.rank);
  }
  if (reader.remaining() != 0) return error(Code::kInternal, "store request is over-long");
  return request;
}

std::string encode(const Place& place) {
  ByteWriter writer;
  writer.put(place.epoch);
  for (const std::int32_t number : {place.rank, place.size, place.local_rank, place.local_size}) {
    writer.put(number);
  }
  writer.put(place.at_work);
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Place> decode_place(std::string_view bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  Place place;
  HVD_TRY_ASSIGN(place.epoch, reader.get<std::uint64_t>());
  for (std::int32_t* number : {&place.rank, &place.size, &place.local_rank, &place.local_size}) {
    HVD_TRY_ASSIGN(*number, reader.get<std::int32_t>());
  }
  HVD_TRY_ASSIGN(place.at_work, reader.get<std::uint8_t>());
  const bool fits = place.size >= 1 && place.size <= kMaxRanks && place.rank >= 0 &&
                    place.rank < place.size && place.local_size >= 1 &&
                    place.local_size <= place.size && place.local_rank >= 0 &&
                    place.local_rank < place.local_size;
  if (place.epoch == 0 || !fits || reader.remaining() != 0) {
    return error(Code::kInternal, "the store gave no valid place");
  }
  return place;
}

Bytes encode(const Reply& reply) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(reply.code));
  writer.put_string(reply.text);
  writer.put(static_cast<std::uint32_t>(reply.values.size()));
  for (const std::string& value : reply.values) writer.put_string(value);
  return writer.take();
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Reply reply;
  HVD_TRY_ASSIGN(reply.code, decode_code(reader));
  HVD_TRY_ASSIGN(reply.text, reader.get_string());
  HVD_TRY_ASSIGN(const auto count, reader.get<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    HVD_TRY_ASSIGN(auto value, reader.get_string());
    reply.values.push_back(std::move(value));
  }
  return reply;
}

}  // namespace hvd::store_message
