// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// A numeric IPv4 or IPv6 address with its port. Immutable after construction.
class SocketAddress {
 public:
  /// "10.1.2.3:4567", "[fe80::1]:4567".
  static Result<SocketAddress> parse(std::string_view text);
  /// A bare numeric address, "10.1.2.3" or "fe80::1", with a port.
  static Result<SocketAddress> of(const std::string& address, std::uint16_t port);

  std::string to_string() const;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const {
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
};

/// Addresses joined by commas, as in HVD_STORE.
Result<std::vector<SocketAddress>> parse_addresses(std::string_view text);

}  // namespace hvd
