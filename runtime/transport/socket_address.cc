// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace hvd {
namespace {

std::string numeric_host(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

}  // namespace

Result<SocketAddress> SocketAddress::of(const std::string& address, std::uint16_t port) {
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage_);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return result;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage_);
  if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return result;
  }
  return error(Code::kInvalidArgument, "'{}' is not a numeric IPv4 or IPv6 address", address);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto host_end = colon == std::string_view::npos ? text.size() : colon;
  std::string_view host = text.substr(0, host_end);
  const std::string_view port_text = text.substr(std::min(host_end + 1, text.size()));
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != port_text.data() + port_text.size() || port == 0) {
    return error(Code::kInvalidArgument, "'{}' is not ADDRESS:PORT", text);
  }
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  return of(std::string(host), port);
}

std::string SocketAddress::to_string() const {
  const auto port = family() == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                        : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port;
  const char* format = family() == AF_INET6 ? "[" : "";
  const char* close = family() == AF_INET6 ? "]" : "";
  return format_text("{}{}{}:{}", format, numeric_host(raw()), close, ntohs(port));
}

Result<std::vector<SocketAddress>> parse_addresses(std::string_view text) {
  std::vector<SocketAddress> addresses;
  while (!text.empty()) {
    const auto comma = text.find(',');
    HVD_TRY_ASSIGN(auto address, SocketAddress::parse(text.substr(0, comma)));
    addresses.push_back(address);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  if (addresses.empty()) return error(Code::kInvalidArgument, "no address given");
  return addresses;
}

}  // namespace hvd
