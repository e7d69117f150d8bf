// SPDX-License-Identifier: Apache-2.0
#include "transport/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <tuple>

#include "base/unique_fd.h"

namespace hvd {
namespace {

using AddressBytes = std::array<unsigned char, 16>;

/// IPv4 in the form ::ffff:a.b.c.d, so that both families compare alike.
AddressBytes bytes_of(const std::string& text) {
  AddressBytes bytes{};
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes[10] = bytes[11] = 0xff;
  ::inet_pton(AF_INET, text.c_str(), bytes.data() + 12);
  return bytes;
}

bool is_ipv6(const Interface& interface) {
  return interface.address.find(':') != std::string::npos;
}

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v6 = address->sa_family == AF_INET6;
  const void* bytes =
      v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
         : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  // A connection of an IPv4 peer to a socket of both families.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view whole(text.data());
  const bool mapped = whole.starts_with(kMapped) && whole.find('.') != std::string_view::npos;
  return std::string(mapped ? whole.substr(kMapped.size()) : whole);
}

int prefix_bits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const bool v6 = mask->sa_family == AF_INET6;
  const auto* begin = v6 ? reinterpret_cast<const unsigned char*>(
                               &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr)
                         : reinterpret_cast<const unsigned char*>(
                               &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
  int bits = 0;
  for (const unsigned char byte : std::span(begin, v6 ? 16 : 4)) bits += std::popcount(byte);
  return bits;
}

int speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int speed = 0;
  // Virtual interfaces say nothing, -1, or that they are as fast as 10 Gbit/s.
  return file >> speed && speed > 0 ? speed : 0;
}

bool is_link_local(const Interface& interface) {
  const AddressBytes bytes = bytes_of(interface.address);
  if (is_ipv6(interface)) return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return bytes[12] == 169 && bytes[13] == 254;
}

std::string label(const Interface& interface) {
  return format_text("{} {}", interface.name, interface.address);
}

/// Why an interface is left out; empty where it is not.
std::string_view objection_to(const Interface& interface) {
  if (!interface.is_up) return "is down";
  if (interface.name == "lo") return "reaches this host alone";
  if (is_link_local(interface)) return "has a link-local address";
  if (leads_nowhere(interface.name)) return "leads to containers or virtual machines of this host";
  return {};
}

/// Worth a trial where there is nothing better; what is down may come up.
bool is_fit(const Interface& interface) {
  return interface.name != "lo" && !is_link_local(interface);
}

void sort_by_speed(std::vector<Interface>& interfaces) {
  std::stable_sort(interfaces.begin(), interfaces.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.speed_mbit, is_ipv6(a)) < std::tuple(-b.speed_mbit, is_ipv6(b));
  });
}

std::string labels_of(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& interface : interfaces) {
    text += format_text("{}{}{}", text.empty() ? "" : ", ", label(interface),
                        interface.is_up ? "" : " (down)");
  }
  return text.empty() ? "none" : text;
}

Result<InterfaceChoice> choose_wanted(const std::vector<Interface>& all, std::string_view wanted) {
  InterfaceChoice choice;
  for (std::string_view rest = wanted; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    for (const Interface& interface : all) {
      const bool fits = interface.name == name && interface.is_up && !is_link_local(interface);
      if (fits) choice.usable.push_back(interface);
    }
  }
  if (choice.usable.empty()) {
    return error(Code::kInvalidArgument,
                 "HVD_INTERFACE={} names no interface of this host that is up and has an address; "
                 "there are: {}; name one of them, or unset it",
                 wanted, labels_of(all));
  }
  return choice;
}

bool share_network(const Interface& a, const Interface& b) {
  if (is_ipv6(a) != is_ipv6(b) || a.prefix_bits != b.prefix_bits || a.prefix_bits == 0) {
    return false;
  }
  const AddressBytes first = bytes_of(a.address);
  const AddressBytes second = bytes_of(b.address);
  const int bits = a.prefix_bits + (is_ipv6(a) ? 0 : 96);
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const unsigned mask = 0x80U >> (bit % 8);
    if (((first[byte] ^ second[byte]) & mask) != 0) return false;
  }
  return true;
}

/// Smaller is better.
using Rank = std::tuple<bool, int, bool, bool>;

/// `again`: an address before this one leads to the same interface, so it is not a rail of its own.
Rank rank_of(const std::vector<Interface>& mine, const Interface& theirs, bool again) {
  const auto near = std::find_if(mine.begin(), mine.end(),
                                 [&](const Interface& own) { return share_network(own, theirs); });
  const bool shared = near != mine.end();
  const int speed = shared ? std::min(near->speed_mbit, theirs.speed_mbit) : theirs.speed_mbit;
  return {!shared, -speed, is_ipv6(theirs), again};
}

std::vector<std::pair<Rank, std::string>> ranked(const std::vector<Interface>& mine,
                                                 const std::vector<Interface>& theirs) {
  std::vector<std::pair<Rank, std::string>> list;
  std::set<std::pair<std::string, bool>> seen;
  for (const Interface& interface : theirs) {
    const bool again = !seen.emplace(interface.name, is_ipv6(interface)).second;
    list.emplace_back(rank_of(mine, interface, again), interface.address);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return list;
}

}  // namespace

std::vector<Interface> interfaces_of_host() {
  std::vector<Interface> interfaces;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return interfaces;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    interfaces.push_back(
        {.name = entry->ifa_name,
         .address = numeric(entry->ifa_addr),
         .prefix_bits = prefix_bits(entry->ifa_netmask),
         .speed_mbit = speed_of(entry->ifa_name),
         .is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0});
  }
  return interfaces;
}

bool leads_nowhere(std::string_view interface) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"docker", "br-",     "veth",   "virbr",
                                                         "cni",    "flannel", "podman", "lxcbr"};
  if (interface == "lo") return true;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return interface.substr(0, prefix.size()) == prefix;
  });
}

Result<InterfaceChoice> choose_interfaces(const std::vector<Interface>& all,
                                          std::string_view wanted) {
  if (!wanted.empty()) return choose_wanted(all, wanted);
  InterfaceChoice choice;
  for (const Interface& interface : all) {
    const std::string_view objection = objection_to(interface);
    if (objection.empty()) {
      choice.usable.push_back(interface);
      continue;
    }
    choice.left_out +=
        format_text("{}{} ({})", choice.left_out.empty() ? "" : "; ", label(interface), objection);
  }
  if (choice.usable.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(choice.usable), is_fit);
  }
  sort_by_speed(choice.usable);
  return choice;
}

std::vector<std::string> order_addresses(const std::vector<Interface>& mine,
                                         const std::vector<Interface>& theirs, int rail) {
  const auto list = ranked(mine, theirs);
  std::vector<std::string> addresses;
  addresses.reserve(list.size());
  for (const auto& entry : list) addresses.push_back(entry.second);
  const int rails = rails_between(mine, theirs);
  if (rails > 1) {
    std::rotate(addresses.begin(), addresses.begin() + rail % rails, addresses.begin() + rails);
  }
  return addresses;
}

int rails_between(const std::vector<Interface>& mine, const std::vector<Interface>& theirs) {
  const auto list = ranked(mine, theirs);
  return static_cast<int>(std::count_if(list.begin(), list.end(), [&](const auto& entry) {
    return entry.first == list.front().first;
  }));
}

std::vector<std::string> published_addresses(const std::vector<Interface>& all,
                                             std::string_view first) {
  std::vector<std::string> addresses;
  for (const std::string_view wanted : {first, std::string_view()}) {
    const Result<InterfaceChoice> choice = choose_interfaces(all, wanted);
    if (!choice.is_ok()) continue;
    for (const Interface& interface : choice.value().usable) {
      const bool is_new =
          std::find(addresses.begin(), addresses.end(), interface.address) == addresses.end();
      if (is_new) addresses.push_back(interface.address);
    }
  }
  if (addresses.empty()) addresses.emplace_back("127.0.0.1");
  return addresses;
}

std::string peer_address_of_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(fd, address, &length) != 0) return {};
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return {};
  return numeric(address);
}

std::string interface_of_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(fd, address, &length) != 0) return {};
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return {};
  std::string text = numeric(address);
  for (const Interface& interface : interfaces_of_host()) {
    if (interface.address == text) return label(interface);
  }
  return text;
}

std::string describe_route(const SocketAddress& address) {
  // Sends nothing: the kernel only chooses the near end.
  const UniqueFd probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool leads = ::connect(probe.get(), address.raw(), address.length()) == 0;
  const std::string near = leads ? interface_of_socket(probe.get()) : std::string();
  if (near.empty()) {
    return format_text("to {}, which no interface here leads to", address.to_string());
  }
  return format_text("from {} here to {}", near, address.to_string());
}

}  // namespace hvd
