// RoundingNoise: whether integers that are not the nearest ones look like the noise of a calibration. GPTQ and similar
// quantisers round each column to the nearest integer after they have added the errors of the columns before it. That
// is noise: it rounds up as often as down, changes mostly numbers that are near halfway between two integers, and does
// so in all rows. Roundings that somebody chose need none of this.
//
// It proves nothing: noise of the same form, and a few changes among many, are not noticed.
//
// Source: Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, 2022. The
// limits are below what GPTQ gives for layers of 64 to 1024 rows with independent, correlated, positive and low-rank
// inputs: tests/derivation/test_rounding_noise.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace whence::derivation {

// The counts of one tensor, and the probability of each under noise, or a lower one.
struct RoundingCounts {
  std::int64_t elements = 0, others = 0;   // `others`: not the nearest integer
  std::int64_t above = 0;                  // of the others: above the nearest one
  std::int64_t near_halfway = 0;           // of the others: the number is nearer to halfway than to its nearest integer
  std::int64_t rows = 0, fullest_row = 0;  // of the others: the most in one row
  double p_sides = 1, p_halfway = 1, p_rows = 1;
  std::string unlike_noise = {};  // what noise does not do, as a phrase; empty if nothing was noticed
};

class RoundingNoise {
 public:
  explicit RoundingNoise(std::int64_t rows) : rows_(static_cast<std::size_t>(rows)) {}

  // Adds an element: the exact number and the stored integer, both in steps.
  void add(double exact, double stored, std::size_t row);
  RoundingCounts counts() const;
  double largest_distance() const { return largest_distance_; }

 private:
  RoundingCounts counts_;
  std::vector<std::int64_t> rows_;
  double largest_distance_ = 0;
};

}  // namespace whence::derivation
