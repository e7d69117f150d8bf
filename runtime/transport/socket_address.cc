// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace hvd {
namespace {

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

bool is_link_local(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  const auto ip = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  return (ip >> 16) == 0xa9fe;
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
  return format_text("{}{}{}:{}", format, numeric(raw()), close, ntohs(port));
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

bool leads_nowhere(std::string_view interface) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"docker", "br-",     "veth",   "virbr",
                                                         "cni",    "flannel", "podman", "lxcbr"};
  if (interface == "lo") return true;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return interface.substr(0, prefix.size()) == prefix;
  });
}

std::vector<std::string> published_addresses() {
  std::vector<std::string> ipv4;
  std::vector<std::string> ipv6;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (leads_nowhere(entry->ifa_name) || is_link_local(entry->ifa_addr)) continue;
    (family == AF_INET ? ipv4 : ipv6).push_back(numeric(entry->ifa_addr));
  }
  ipv4.insert(ipv4.end(), ipv6.begin(), ipv6.end());
  if (ipv4.empty()) ipv4.emplace_back("127.0.0.1");
  return ipv4;
}

}  // namespace hvd
