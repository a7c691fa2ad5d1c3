// The blocks of SHA-256, by the processor's instructions for it where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace whence::sha256_blocks {

using State = std::array<std::uint32_t, 8>;
constexpr std::size_t block_size = 64;  // bytes

// Adds blocks to the state of a digest.
using AddBlocks = void (*)(State& state, const unsigned char* bytes, std::size_t blocks);

// In plain C++ (FIPS 180-4).
void add_portably(State& state, const unsigned char* bytes, std::size_t blocks);
// Returns the fastest function for this processor; all give the same.
AddBlocks fastest();

}  // namespace whence::sha256_blocks
