#include "schema/files/sha256.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "schema/files/files.h"
#include "schema/files/sha256_blocks.h"

namespace whence {
namespace {

using sha256_blocks::block_size;

class Hash {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= block_size) {
        const std::size_t blocks = bytes.size() / block_size;
        add_blocks_(state_, reinterpret_cast<const unsigned char*>(bytes.data()), blocks);
        bytes.remove_prefix(blocks * block_size);
        continue;
      }
      const std::size_t taken = std::min(bytes.size(), block_size - held_);
      std::memcpy(block_.data() + held_, bytes.data(), taken);
      held_ += taken;
      bytes.remove_prefix(taken);
      if (held_ == block_size) {
        add_blocks_(state_, block_.data(), 1);
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
  sha256_blocks::AddBlocks add_blocks_ = sha256_blocks::fastest();
  sha256_blocks::State state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
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
