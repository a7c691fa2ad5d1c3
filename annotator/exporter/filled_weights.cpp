#include "annotator/exporter/filled_weights.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>

namespace whence::exporter {
namespace {

// Provides bytes for the weights that a sidecar leaves out. Zeros would be sums without effect and equal weights, which
// the exporter drops and merges. So each tensor begins at its own offset in a range of noise and continues in zero
// pages, which need address space and no memory.
class Filler {
 public:
  explicit Filler(std::size_t largest) : size_(noise + largest) {
    void* pages = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
      throw Error(Code::over_limit, "no address space for a tensor of " + std::to_string(size_) + " bytes",
                  "free memory, or match on another machine", {.stage = "match"});
    }
    pages_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(pages), [size = size_](void* at) { munmap(at, size); });
  }

  Bytes of(const TensorData& data) {
    constexpr std::size_t step = 64, min_noise = noise / 16;  // bytes between two tensors, and of noise in a large one
    // Integers are indices and counts, for which zero is always valid.
    std::size_t start = noise;
    if (is_floating(data.dtype)) {
      start = next_;
      next_ = (next_ + step) % (noise - min_noise);
      make_noise(std::min(start + data.bytes.size(), noise));
    }
    return Bytes::part_of(pages_, pages_.get() + start, data.bytes.size());
  }

 private:
  static constexpr std::size_t noise = std::size_t{1} << 20;  // bytes; takes milliseconds to make

  // Writes 0x3e00 to 0x3eff into every two bytes: a moderate positive number in each floating dtype.
  void make_noise(std::size_t end) {
    for (; made_ < end; made_ += 2) {
      pages_.get()[made_] = static_cast<std::byte>(random_() >> 8);
      pages_.get()[made_ + 1] = std::byte{0x3e};
    }
  }

  std::size_t size_, next_ = 0;
  std::size_t made_ = 0;  // bytes of noise that the tensors so far need
  std::minstd_rand random_;
  std::shared_ptr<std::byte> pages_;
};

}  // namespace

Program with_filled_weights(const Program& program) {
  Program filled = program;
  std::vector<TensorData*> missing;
  std::size_t largest = 0;
  const auto look_at = [&](TensorData& data) {
    if (data.bytes.in_memory() || data.bytes.computed_when_written()) return;
    missing.push_back(&data);
    largest = std::max(largest, data.bytes.size());
  };
  for (Parameter& parameter : filled.parameters) look_at(parameter.data);
  for (Constant& constant : filled.constants) look_at(constant.data);
  if (missing.empty()) return filled;
  Filler filler(largest);
  for (TensorData* data : missing) data->bytes = filler.of(*data);
  return filled;
}

}  // namespace whence::exporter
