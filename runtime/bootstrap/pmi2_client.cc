// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>
#include <utility>

#include "base/rounding.h"
#include "transport/socket_io.h"

namespace hvd {
namespace {

constexpr std::size_t kLengthDigits = 6;
constexpr std::size_t kMaxAnswerBytes = 99'999;
/// PMI2_MAX_VALLEN is 1024; hex doubles.
constexpr std::size_t kPieceBytes = 480;
constexpr std::size_t kMaxPieces = 4096;
constexpr std::string_view kHello = "cmd=init pmi_version=2 pmi_subversion=0\n";

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

Result<std::string> from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const std::string_view pair = hex.substr(i, 2);
    const auto parsed = std::from_chars(pair.data(), pair.data() + pair.size(), value, 16);
    if (pair.size() != 2 || parsed.ptr != pair.data() + 2) {
      return error(Code::kInternal, "PMI-2: a value is not hex");
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

Status wait_for(int fd, short events, Deadline deadline) {
  HVD_TRY_ASSIGN(const bool ready, wait_ready(fd, events, deadline));
  if (!ready) return error(Code::kTimeout, "the PMI-2 server did not answer: a rank is missing");
  return Status::ok();
}

}  // namespace

Status Pmi2Client::send(std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    HVD_TRY(wait_for(fd_, POLLOUT, deadline));
    // A server that is gone is an error, not the end of this process by SIGPIPE.
    auto written = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == ENOTSOCK) written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      return Status::system("cannot write to the PMI-2 server (PMI_FD)", errno);
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return Status::ok();
}

Status Pmi2Client::receive(std::size_t size, Deadline deadline) {
  while (received_.size() < size) {
    HVD_TRY(wait_for(fd_, POLLIN, deadline));
    std::array<char, 4096> buffer;
    const auto got = ::read(fd_, buffer.data(), std::min(buffer.size(), size - received_.size()));
    if (got == 0) return error(Code::kPeerLost, "the PMI-2 server closed PMI_FD");
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      return Status::system("cannot read from the PMI-2 server (PMI_FD)", errno);
    }
    received_.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  return Status::ok();
}

Result<std::string> Pmi2Client::receive_answer(Deadline deadline) {
  HVD_TRY(receive(kLengthDigits, deadline));
  const std::string length = received_.substr(0, kLengthDigits);
  const auto digits =
      std::string_view(length).substr(std::min(length.find_first_not_of(' '), length.size()));
  std::size_t size = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (parsed.ec != std::errc() || size == 0 || size > kMaxAnswerBytes) {
    return error(Code::kInternal, "PMI-2: '{}' is not a length of an answer", length);
  }
  HVD_TRY(receive(kLengthDigits + size, deadline));
  std::string answer = received_.substr(kLengthDigits);
  received_.clear();
  asked_.clear();
  return answer;
}

Result<Pmi2Client::Fields> Pmi2Client::ask(std::string_view command, std::string_view fields,
                                           Deadline deadline) {
  const std::string body = format_text("cmd={};{}", command, fields);
  if (!asked_.empty() && asked_ != body) {
    return error(Code::kInternal, "PMI-2: the server still owes an answer to '{}'", asked_);
  }
  if (asked_.empty()) HVD_TRY(send(format_text("{:6}{}", body.size(), body), deadline));
  asked_ = body;
  HVD_TRY_ASSIGN(const std::string answer, receive_answer(deadline));
  Fields result;
  std::string_view rest = answer;
  while (!rest.empty()) {
    const auto end = rest.find(';');
    const auto field = rest.substr(0, end);
    const auto equals = field.find('=');
    if (equals != std::string_view::npos) {
      result.emplace(field.substr(0, equals), field.substr(equals + 1));
    }
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  const auto named = result.find("cmd");
  if (named == result.end() || named->second != format_text("{}-response", command)) {
    return error(Code::kInternal, "PMI-2: unexpected answer to {}", command);
  }
  const auto code = result.find("rc");
  if (code != result.end() && code->second != "0") {
    return error(Code::kSystem, "PMI-2: the server refused {} (rc={})", command, code->second);
  }
  return result;
}

Result<Pmi2Client> Pmi2Client::open(const Pmi2Server& server, Deadline deadline) {
  Pmi2Client client(server.fd);
  HVD_TRY(client.send(kHello, deadline));
  std::string& answer = client.received_;
  while (answer.size() < 256 && (answer.empty() || answer.back() != '\n')) {
    HVD_TRY(client.receive(answer.size() + 1, deadline));
  }
  if (answer.find("cmd=response_to_init") != 0 || answer.find("rc=0") == std::string::npos) {
    return error(Code::kSystem, "the server at PMI_FD does not speak PMI-2");
  }
  answer.clear();
  client.job_ = server.job;
  HVD_TRY(client
              .ask("fullinit",
                   format_text("pmijobid={};pmirank={};threaded=FALSE;", server.job, server.rank),
                   deadline)
              .status());
  return client;
}

Status Pmi2Client::put(std::string_view key, std::string_view value, Deadline deadline) {
  const std::size_t pieces = std::max<std::size_t>(1, divide_up(value.size(), kPieceBytes));
  const auto put_one = [&](const std::string& name, const std::string& text) {
    return ask("kvs-put", format_text("key={};value={};", name, text), deadline).status();
  };
  HVD_TRY(put_one(std::string(key), format_text("{}", pieces)));
  for (std::size_t i = 0; i < pieces; ++i) {
    HVD_TRY(
        put_one(format_text("{}.{}", key, i), to_hex(value.substr(i * kPieceBytes, kPieceBytes))));
  }
  return Status::ok();
}

Status Pmi2Client::fence(Deadline deadline) { return ask("kvs-fence", "", deadline).status(); }

Result<std::string> Pmi2Client::get(std::string_view key, Deadline deadline) {
  const auto get_one = [&](const std::string& name) -> Result<std::string> {
    HVD_TRY_ASSIGN(auto fields,
                   ask("kvs-get", format_text("jobid={};srcid=-1;key={};", job_, name), deadline));
    if (fields["found"] != "TRUE") {
      return error(Code::kInternal, "PMI-2: the key '{}' is missing after the fence", name);
    }
    return fields["value"];
  };
  HVD_TRY_ASSIGN(const std::string count_text, get_one(std::string(key)));
  std::size_t pieces = 0;
  std::from_chars(count_text.data(), count_text.data() + count_text.size(), pieces);
  if (pieces == 0 || pieces > kMaxPieces) {
    return error(Code::kInternal, "PMI-2: '{}' is not a count of pieces", count_text);
  }
  std::string value;
  for (std::size_t i = 0; i < pieces; ++i) {
    HVD_TRY_ASSIGN(const std::string hex, get_one(format_text("{}.{}", key, i)));
    HVD_TRY_ASSIGN(const std::string piece, from_hex(hex));
    value += piece;
  }
  return value;
}

}  // namespace hvd
