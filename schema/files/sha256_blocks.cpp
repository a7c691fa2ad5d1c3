#include "schema/files/sha256_blocks.h"

#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace whence::sha256_blocks {
namespace {

alignas(16) constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(State& state, const unsigned char* bytes) {
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
  State s = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t first = s[7] + sum1 + choice + constants[i] + w[i];
    const std::uint32_t sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {first + sum0 + majority, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < s.size(); ++i) state[i] += s[i];
}

#if defined(__x86_64__)

#define WHENCE_SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

using Words = __m128i;  // four, the first in the lowest bits

WHENCE_SHA_TARGET Words load(const void* from) { return _mm_loadu_si128(static_cast<const Words*>(from)); }

// The instructions hold the state as the words A, B, E, F and C, D, G, H, the first in the highest bits, and compute
// two rounds each.
WHENCE_SHA_TARGET void add_by_instructions(State& state, const unsigned char* bytes, std::size_t blocks) {
  const Words to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const Words dcba = load(state.data()), hgfe = load(state.data() + 4);
  const Words cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  Words abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks > 0; --blocks, bytes += block_size) {
    const Words old_abef = abef, old_cdgh = cdgh;
    std::array<std::uint32_t, 16> stored{};
    auto* const last = reinterpret_cast<Words*>(stored.data());  // the last 16 words of the message schedule
    for (std::size_t step = 0; step < 16; ++step) {
      Words& own = last[step % 4];
      if (step < 4) {
        own = _mm_shuffle_epi8(load(bytes + 16 * step), to_big_endian);
      } else {
        const Words& previous = last[(step + 3) % 4];
        const Words seven_before = _mm_alignr_epi8(previous, last[(step + 2) % 4], 4);
        own = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(own, last[(step + 1) % 4]), seven_before),
                                   previous);
      }
      const Words sums = _mm_add_epi32(own, load(constants.data() + 4 * step));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e));
    }
    abef = _mm_add_epi32(abef, old_abef);
    cdgh = _mm_add_epi32(cdgh, old_cdgh);
  }
  const Words feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<Words*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<Words*>(state.data() + 4), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_instructions() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_SSE4_1) == 0 || (ecx & bit_SSSE3) == 0) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_SHA) != 0;
}

#endif

}  // namespace

void add_portably(State& state, const unsigned char* bytes, std::size_t blocks) {
  for (; blocks > 0; --blocks, bytes += block_size) add_block(state, bytes);
}

AddBlocks fastest() {
#if defined(__x86_64__)
  static const bool is_fast = has_instructions();
  if (is_fast) return add_by_instructions;
#endif
  return add_portably;
}

}  // namespace whence::sha256_blocks
