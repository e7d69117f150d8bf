// SPDX-License-Identifier: Apache-2.0
#include "transport/job_key.h"

#include <sodium.h>

#include <vector>

namespace hvd {
namespace {

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

void ensure_sodium() { HVD_CHECK(::sodium_init() >= 0); }

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), raw(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

}  // namespace

JobKey JobKey::random() {
  ensure_sodium();
  JobKey key;
  ::randombytes_buf(key.bytes_.data(), key.bytes_.size());
  return key;
}

Result<JobKey> JobKey::from_hex(std::string_view text) {
  JobKey key;
  std::size_t size = 0;
  const char* end = nullptr;
  const int result =
      ::sodium_hex2bin(reinterpret_cast<unsigned char*>(key.bytes_.data()), key.bytes_.size(),
                       text.data(), text.size(), nullptr, &size, &end);
  if (result != 0 || size != key.bytes_.size() || end != text.data() + text.size()) {
    return error(Code::kInvalidArgument,
                 "a job key needs 64 hex digits; this one has {} characters", text.size());
  }
  return key;
}

std::string JobKey::to_hex() const { return hex_of(bytes_); }

Mac JobKey::authenticate(std::string_view label, std::span<const std::byte> first,
                         std::span<const std::byte> second) const {
  ensure_sodium();
  crypto_auth_hmacsha256_state state;
  ::crypto_auth_hmacsha256_init(&state, raw(bytes_.data()), bytes_.size());
  ::crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(label.data()),
                                  label.size());
  ::crypto_auth_hmacsha256_update(&state, raw(first.data()), first.size());
  ::crypto_auth_hmacsha256_update(&state, raw(second.data()), second.size());
  Mac mac;
  ::crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  return mac;
}

Nonce random_nonce() {
  ensure_sodium();
  Nonce nonce;
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string random_hex(std::size_t bytes) {
  ensure_sodium();
  std::vector<std::byte> random(bytes);
  ::randombytes_buf(random.data(), random.size());
  return hex_of(random);
}

bool equal_macs(const Mac& a, const Mac& b) {
  return ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace hvd
