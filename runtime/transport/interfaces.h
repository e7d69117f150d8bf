// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/socket_address.h"

namespace hvd {

/// An address of a network interface of a host.
struct Interface {
  std::string name;
  std::string address;  ///< Numeric, IPv4 or IPv6.
  int prefix_bits = 0;  ///< Of its network.
  int speed_mbit = 0;   ///< 0: not known.
  bool is_up = true;
  bool operator==(const Interface&) const = default;
};

/// Those of this host, in the order of the kernel; one entry for each address.
std::vector<Interface> interfaces_of_host();

/// Which interfaces other hosts are told of, and why not the others.
struct InterfaceChoice {
  std::vector<Interface> usable;  ///< The fastest first; IPv4 before IPv6.
  std::string left_out;           ///< "docker0 172.17.0.1 (leads to containers); ..."
};

/// Leaves out loopback, what is down, link-local addresses, and interfaces that lead to containers
/// and virtual machines of the host, unless there is nothing else. `wanted` (HVD_INTERFACE: names,
/// comma-separated) takes these alone, in this order; kInvalidArgument where none is there. Pure.
Result<InterfaceChoice> choose_interfaces(const std::vector<Interface>& all,
                                          std::string_view wanted);

/// Addresses of `theirs` as seen from `mine`, most likely first: those in a network that both are
/// in, the fastest first, IPv4 before IPv6. Of several that are equally good each `rail` begins
/// with another one. Pure.
std::vector<std::string> order_addresses(const std::vector<Interface>& mine,
                                         const std::vector<Interface>& theirs, int rail);

/// How many of the addresses are equally good and best: rails that lanes can be spread over.
int rails_between(const std::vector<Interface>& mine, const std::vector<Interface>& theirs);

/// Numeric addresses (no port) under which other hosts may reach this one, of `all` interfaces;
/// loopback when there is nothing else. Those of the interfaces that `first` names (as above) come
/// first, in its order; names that are not there count for nothing. Pure.
std::vector<std::string> published_addresses(const std::vector<Interface>& all,
                                             std::string_view first);

/// True for interfaces that lead to no other host: lo, docker0, br-*, veth*, virbr*, ...
bool leads_nowhere(std::string_view interface);

/// "10.0.0.2" for the far end of a connected socket; empty where it has no address.
std::string peer_address_of_socket(int fd);

/// "from eth0 10.0.0.1 here to 10.0.0.2:4000", as the kernel would send now; "to 10.0.0.2:4000,
/// which no interface here leads to" where it would not.
std::string describe_route(const SocketAddress& address);

/// "eth0 10.0.0.1" for the near end of a connected socket; empty where it has no address.
std::string interface_of_socket(int fd);

}  // namespace hvd
