#include "schema/files/sha256.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "schema/files/files.h"

namespace whence {
namespace {

using Words = std::array<std::uint32_t, 8>;

constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t block_size = 64;

class Hash {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= block_size) {
        add_block(reinterpret_cast<const unsigned char*>(bytes.data()));
        bytes.remove_prefix(block_size);
        continue;
      }
      const std::size_t taken = std::min(bytes.size(), block_size - held_);
      std::memcpy(block_.data() + held_, bytes.data(), taken);
      held_ += taken;
      bytes.remove_prefix(taken);
      if (held_ == block_size) {
        add_block(block_.data());
        held_ = 0;
      }
    }
  }

  std::string finish() {
    const std::uint64_t bits = length_ * 8;
    std::string padding(1, '\x80');
    while ((held_ + padding.size()) % block_size != block_size - sizeof bits) padding += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) padding += static_cast<char>(bits >> shift);
    add(padding);
    std::string text;
    for (const std::uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 0xfU];
    }
    return text;
  }

 private:
  void add_block(const unsigned char* bytes) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = static_cast<std::uint32_t>(bytes[4 * i]) << 24U | static_cast<std::uint32_t>(bytes[4 * i + 1]) << 16U |
             static_cast<std::uint32_t>(bytes[4 * i + 2]) << 8U | bytes[4 * i + 3];
    }
    for (std::size_t i = 16; i < w.size(); ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3U) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10U);
    }
    Words s = state_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::uint32_t sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
      const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      const std::uint32_t first = s[7] + sum1 + choice + constants[i] + w[i];
      const std::uint32_t sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
      const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      s = {first + sum0 + majority, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < s.size(); ++i) state_[i] += s[i];
  }

  Words state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, block_size> block_{};
  std::size_t held_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.finish();
}

std::string sha256_of_file(const std::string& path) {
  constexpr std::size_t step = std::size_t{1} << 24;
  const auto file = MappedFile::open(path);
  Hash hash;
  for (std::size_t at = 0; at < file->size(); at += step) {
    const std::size_t size = std::min(step, file->size() - at);
    hash.add(file->text().substr(at, size));
    file->release(at, size);
  }
  return hash.finish();
}

}  // namespace whence
