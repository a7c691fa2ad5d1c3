// AttributeDigest: a number for an attribute's name and value. Sums of these numbers compare sets of attributes in any
// order. FNV-1a with a final mix: the inputs are small, and no adversary chooses them.
#pragma once

#include <cstdint>
#include <string_view>

namespace whence::match {

class AttributeDigest {
 public:
  explicit AttributeDigest(std::string_view name) { add(name); }

  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) step(static_cast<std::uint8_t>(number >> shift));
  }
  void add(std::string_view text) {
    for (const char each : text) step(static_cast<std::uint8_t>(each));
  }
  std::uint64_t value() const {
    std::uint64_t mixed = state_;
    mixed ^= mixed >> 33;
    mixed *= 0xff51afd7ed558ccdULL;
    return mixed ^ (mixed >> 33);
  }

 private:
  void step(std::uint8_t byte) { state_ = (state_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace whence::match
