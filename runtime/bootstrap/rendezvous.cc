// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/rendezvous.h"

#include <dirent.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/file_store.h"
#include "bootstrap/local_host.h"
#include "topology/launch_env.h"
#include "transport/node_exchange.h"

namespace hvd {
namespace {

constexpr std::string_view kTicketMark = "hvd-ticket-2";
/// A file that cannot be a ticket (a link, another user's) is taken for a leftover for this long,
/// one that is none as long as the start may take.
constexpr std::chrono::seconds kLeftOverTime{10};
constexpr std::size_t kMaxTicketBytes = 16384;

Result<std::string> home_folder(const Environment& environment) {
  if (auto home = environment.get("HOME"); home && !home->empty()) return *home;
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr && found->pw_dir != nullptr) return std::string(found->pw_dir);
  return error(Code::kInvalidArgument,
               "no home folder for the rendezvous file; set HVD_RENDEZVOUS_DIR to a folder that "
               "all nodes share");
}

/// Creates the folder and those above it.
Status make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), S_IRWXU);
  }
  if (::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST) return Status::ok();
  return Status::system(
      format_text("cannot create the rendezvous folder {}; set HVD_RENDEZVOUS_DIR", path), errno);
}

/// The hosts of tickets whose names differ from `name` in what names the job only.
std::string hosts_of_like_names(const std::string& folder, const JobName& name) {
  std::string hosts;
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return hosts;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's own.
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view file = entry->d_name;
    if (!file.starts_with(name.stem + ".") || file == name.file()) continue;
    const auto text = read_private_file(format_text("{}/{}", folder, file), kMaxTicketBytes);
    if (!text.is_ok()) continue;
    const auto ticket = parse_ticket(text.value());
    if (ticket.is_ok()) hosts += (hosts.empty() ? "" : ", ") + ticket.value().host;
  }
  return hosts;
}

Status no_ticket(const FileMeeting& meeting, const Status& last) {
  std::string others = hosts_of_like_names(meeting.folder, meeting.name);
  if (!others.empty()) {
    others = format_text(
        "; this rank is on {}{}{}, jobs of the same name have rank 0 on {}: where they are this "
        "one, LOCAL_WORLD_SIZE or MASTER_ADDR is wrong",
        meeting.place.host, meeting.name.reason.empty() ? "" : ", where ", meeting.name.reason,
        others);
  }
  return error(Code::kTimeout,
               "rank 0 did not come: the rendezvous file {} led nowhere ({}); is the folder shared "
               "by all nodes (HVD_RENDEZVOUS_DIR), and did rank 0 start?{}",
               meeting.path(), last.message(), others);
}

}  // namespace

Rendezvous::~Rendezvous() { remove_file(*this); }

void remove_file(Rendezvous& rendezvous) {
  if (rendezvous.file != nullptr) ::unlink(rendezvous.file->c_str());
  rendezvous.file.reset();
}

std::string format_ticket(const Ticket& ticket) {
  return format_text("{}\n{}\n{}\n{}\n{}\n{}\n", kTicketMark, ticket.host, ticket.addresses,
                     ticket.key, ticket.nonce, ticket.machine);
}

Result<Ticket> parse_ticket(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  if (lines.size() != 6 || lines[0] != kTicketMark) {
    return error(Code::kInvalidArgument, "this is not a rendezvous ticket of hvd");
  }
  return Ticket{.host = lines[1],
                .addresses = lines[2],
                .key = lines[3],
                .nonce = lines[4],
                .machine = lines[5]};
}

Result<std::unique_ptr<TcpStore>> connect_to_own(const TcpStoreServer& server, const JobKey& key,
                                                 Deadline deadline) {
  HVD_TRY_ASSIGN(const auto own, parse_addresses(server.loopback_address()));
  auto store = TcpStore::connect(own, key, deadline);
  if (store.is_ok()) return store;
  // No loopback in this network name space.
  HVD_TRY_ASSIGN(const auto all, parse_addresses(server.addresses()));
  return TcpStore::connect(all, key, deadline);
}

Result<Rendezvous> serve_rendezvous(Deadline deadline) {
  Rendezvous rendezvous;
  rendezvous.key = JobKey::random();
  HVD_TRY_ASSIGN(rendezvous.server, TcpStoreServer::start(rendezvous.key));
  HVD_TRY_ASSIGN(rendezvous.store, connect_to_own(*rendezvous.server, rendezvous.key, deadline));
  return rendezvous;
}

Ticket ticket_of(const Rendezvous& rendezvous, const std::string& interfaces) {
  return {.host = local_host_name(),
          .addresses = rendezvous.server->addresses(interfaces),
          .key = rendezvous.key.to_hex(),
          .nonce = random_hex(8),
          .machine = machine_key()};
}

Result<Rendezvous> join_rendezvous(const Ticket& ticket, Deadline deadline) {
  Rendezvous rendezvous;
  HVD_TRY_ASSIGN(rendezvous.key, JobKey::from_hex(ticket.key));
  HVD_TRY_ASSIGN(const auto addresses, parse_addresses(ticket.addresses));
  auto store = TcpStore::connect_once(addresses, rendezvous.key, deadline);
  if (!store.is_ok()) return store.status().with_context(format_text("rank 0 on {}", ticket.host));
  rendezvous.store = std::move(store).value();
  return rendezvous;
}

Status check_ticket(const Ticket& ticket, const FileMeeting& meeting) {
  const JobSpan span = meeting.name.span;
  if (place_within(span, ticket.machine) == place_within(span, meeting.place.machine)) {
    return Status::ok();
  }
  return error(Code::kInvalidArgument,
               "the ticket is of rank 0 on {}, but this rank is on {} and {}: it is another job's, "
               "or the ranks were not told that they are on several hosts (LOCAL_WORLD_SIZE, "
               "MASTER_ADDR)",
               ticket.host, meeting.place.host, meeting.name.reason);
}

namespace {

Result<Rendezvous> join_checked(const Ticket& ticket, const FileMeeting& meeting,
                                Deadline deadline) {
  HVD_TRY(check_ticket(ticket, meeting));
  return join_rendezvous(ticket, deadline.earlier(Deadline::after(std::chrono::seconds(3))));
}

}  // namespace

Result<Rendezvous> meet_by_file(const FileMeeting& meeting, Deadline deadline) {
  const std::string path = meeting.path();
  if (meeting.rank == 0) {
    HVD_TRY_ASSIGN(Rendezvous rendezvous, serve_rendezvous(deadline));
    HVD_TRY(write_private_file(path, format_ticket(ticket_of(rendezvous, meeting.interfaces))));
    rendezvous.file = std::make_unique<std::string>(path);
    return rendezvous;
  }
  // What an earlier job left there, rank 0 replaces as it comes.
  const Deadline of_rank_0 = Deadline::after(kLeftOverTime);
  int step_ms = 1;
  Status last;
  for (;;) {
    const auto text = read_private_file(path, kMaxTicketBytes);
    const bool is_strange = !text.is_ok() && text.status().code() != Code::kTimeout;
    if (is_strange && of_rank_0.has_passed()) return text.status();
    last = text.status();
    if (text.is_ok()) {
      const auto ticket = parse_ticket(text.value());
      auto joined = ticket.is_ok() ? join_checked(ticket.value(), meeting, deadline)
                                   : ticket.status().with_context(path);
      if (joined.is_ok()) return joined;
      last = joined.status();
    }
    if (deadline.has_passed()) return no_ticket(meeting, last);
    back_off(step_ms, deadline);
  }
}

Result<std::string> rendezvous_folder(const std::string& asked, const Environment& environment) {
  std::string folder = asked;
  if (folder.empty()) {
    HVD_TRY_ASSIGN(const std::string home, home_folder(environment));
    folder = home + "/.cache/hvd";
  }
  HVD_TRY(make_folders(folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Status::system(
        format_text("cannot write in the rendezvous folder {}; set HVD_RENDEZVOUS_DIR", folder),
        errno);
  }
  return folder;
}

std::string safe_file_name(std::string_view name) {
  std::string safe(name);
  for (char& c : safe) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  if (safe.size() > 200) safe.resize(200);
  return safe;
}

}  // namespace hvd
