// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_message.h"

namespace hvd::store_message {

Bytes encode(const Request& request) {
  ByteWriter writer;
  writer.put(request.verb);
  writer.put_string(request.key);
  writer.put_string(request.value);
  writer.put(request.rank);
  writer.put(request.size);
  writer.put(request.timeout_ms);
  return writer.take();
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Request request;
  HVD_TRY_ASSIGN(const auto verb, reader.get<std::uint8_t>());
  if (verb < 1 || verb > 3) return error(Code::kInternal, "unknown store request {}", verb);
  request.verb = static_cast<Verb>(verb);
  HVD_TRY_ASSIGN(request.key, reader.get_string());
  HVD_TRY_ASSIGN(request.value, reader.get_string());
  HVD_TRY_ASSIGN(request.rank, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(request.size, reader.get<std::int32_t>());
  HVD_TRY_ASSIGN(request.timeout_ms, reader.get<std::uint64_t>());
  const bool gathers = request.verb == Verb::kGather;
  if (gathers && (request.size < 1 || request.size > kMaxRanks || request.rank < 0 ||
                  request.rank >= request.size)) {
    return error(Code::kInternal, "store request from rank {} of {}", request.rank, request.size);
  }
  if (reader.remaining() != 0) return error(Code::kInternal, "store request is over-long");
  return request;
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
  HVD_TRY_ASSIGN(const auto code, reader.get<std::uint8_t>());
  if (code > static_cast<std::uint8_t>(Code::kInternal)) {
    return error(Code::kInternal, "unknown code {} in a store reply", code);
  }
  reply.code = static_cast<Code>(code);
  HVD_TRY_ASSIGN(reply.text, reader.get_string());
  HVD_TRY_ASSIGN(const auto count, reader.get<std::uint32_t>());
  for (std::uint32_t i = 0; i < count; ++i) {
    HVD_TRY_ASSIGN(auto value, reader.get_string());
    reply.values.push_back(std::move(value));
  }
  return reply;
}

}  // namespace hvd::store_message
