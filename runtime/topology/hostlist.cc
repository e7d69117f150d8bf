// SPDX-License-Identifier: Apache-2.0
#include "topology/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

namespace hvd {
namespace {

constexpr std::size_t kMaxDigits = 18;  // Fits std::uint64_t.
constexpr std::size_t kMaxName = 255;   // RFC 1123.

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_';
}

Status malformed(std::string_view text, std::size_t place, std::string_view what) {
  constexpr std::size_t kShown = 200;
  return error(Code::kInvalidArgument, "'{}' is not a hostlist: {} at character {}",
               text.substr(0, kShown), what, place + 1);
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

/// Reads one hostlist from left to right; at_ is the next character.
class HostlistParser {
 public:
  HostlistParser(std::string_view text, std::size_t limit) : text_(text), limit_(limit) {}

  Result<std::vector<std::string>> parse() {
    std::vector<std::string> hosts;
    if (text_.empty()) return malformed(text_, 0, "it is empty");
    while (true) {
      HVD_TRY_ASSIGN(std::vector<std::string> names, parse_word(limit_ - hosts.size()));
      hosts.insert(hosts.end(), std::make_move_iterator(names.begin()),
                   std::make_move_iterator(names.end()));
      if (at_ == text_.size()) return hosts;
      ++at_;  // The comma that ended the word.
    }
  }

 private:
  /// A name with any number of brackets, up to a comma or the end.
  Result<std::vector<std::string>> parse_word(std::size_t room) {
    std::vector<std::string> names{""};
    const std::size_t start = at_;
    if (room == 0) return too_many();
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == '[') {
        HVD_TRY_ASSIGN(const std::vector<std::string> numbers, parse_bracket(room / names.size()));
        names = product(names, numbers);
      } else if (is_name_character(text_[at_])) {
        for (std::string& name : names) name.push_back(text_[at_]);
        ++at_;
      } else {
        return malformed(text_, at_, "unexpected character");
      }
      if (names.front().size() > kMaxName) return malformed(text_, start, "name too long");
    }
    if (at_ == start) return malformed(text_, at_, "empty name");
    return names;
  }

  /// "[1-3,7]" as its numbers with their leading zeros.
  Result<std::vector<std::string>> parse_bracket(std::size_t room) {
    std::vector<std::string> numbers;
    const std::size_t start = at_;
    do {
      ++at_;  // '[' or ','
      HVD_TRY_ASSIGN(const std::string_view low, parse_digits());
      std::string_view high = low;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        HVD_TRY_ASSIGN(high, parse_digits());
      }
      const std::uint64_t first = number_of(low);
      const std::uint64_t last = number_of(high);
      if (last < first) return malformed(text_, at_, "range that runs backward");
      if (last - first >= room - std::min(room, numbers.size())) return too_many();
      for (std::uint64_t n = first; n <= last; ++n) numbers.push_back(padded(n, low.size()));
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size()) return malformed(text_, start, "bracket without end");
    if (text_[at_] != ']') return malformed(text_, at_, "unexpected character in a bracket");
    ++at_;
    return numbers;
  }

  Result<std::string_view> parse_digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == start) return malformed(text_, at_, "number expected");
    if (at_ - start > kMaxDigits) return malformed(text_, start, "number too long");
    return text_.substr(start, at_ - start);
  }

  static std::vector<std::string> product(const std::vector<std::string>& names,
                                          const std::vector<std::string>& numbers) {
    std::vector<std::string> result;
    result.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) result.push_back(name + number);
    }
    return result;
  }

  Status too_many() const {
    return malformed(text_, at_, format_text("more than {} hosts", limit_));
  }

  std::string_view text_;
  std::size_t limit_;
  std::size_t at_ = 0;
};

/// A host name cut around its last digits: "jz" "07" "".
struct NumberedName {
  std::string_view prefix;
  std::string_view digits;
  std::string_view suffix;
};

NumberedName cut(std::string_view host) {
  std::size_t end = host.size();
  while (end > 0 && !is_digit(host[end - 1])) --end;
  std::size_t start = end;
  while (start > 0 && is_digit(host[start - 1]) && end - start < kMaxDigits) --start;
  return {host.substr(0, start), host.substr(start, end - start), host.substr(end)};
}

bool same_family(const NumberedName& a, const NumberedName& b) {
  return !a.digits.empty() && !b.digits.empty() && a.prefix == b.prefix && a.suffix == b.suffix;
}

/// True when `next` is what a range from `first` gives after `steps`.
bool follows(const NumberedName& first, std::uint64_t steps, const NumberedName& next) {
  return padded(number_of(first.digits) + steps, first.digits.size()) == next.digits;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit) {
  return HostlistParser(text, limit).parse();
}

std::string compress_hostlist(std::span<const std::string> hosts) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size();) {
    const NumberedName family = cut(hosts[i]);
    std::string ranges;
    std::size_t end = i;
    while (end < hosts.size() && (end == i || same_family(family, cut(hosts[end])))) {
      const NumberedName first = cut(hosts[end]);
      std::size_t last = end;
      while (last + 1 < hosts.size() && same_family(family, cut(hosts[last + 1])) &&
             follows(first, last + 1 - end, cut(hosts[last + 1]))) {
        ++last;
      }
      if (!ranges.empty()) ranges += ",";
      ranges += first.digits;
      if (last > end) ranges += "-" + std::string(cut(hosts[last]).digits);
      end = last + 1;
    }
    if (!text.empty()) text += ",";
    text += end == i + 1 ? hosts[i] : format_text("{}[{}]{}", family.prefix, ranges, family.suffix);
    i = end;
  }
  return text;
}

}  // namespace hvd
