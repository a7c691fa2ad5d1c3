#include "annotator/derivation/rounding_noise.h"

#include <algorithm>
#include <cmath>

namespace whence::derivation {
namespace {

constexpr double significant = 1e-6;

// Returns the probability of at least `least` of `count` events with probability `p` each.
double upper_tail(std::int64_t least, std::int64_t count, double p) {
  if (least <= 0) return 1;
  if (least > count || p <= 0) return 0;
  const auto n = static_cast<double>(count), k = static_cast<double>(least);
  double term = std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) +
                         (n - k) * std::log1p(-p));
  // From below the mean, the terms first grow: the other tail has the smaller ones.
  if (k < n * p) return 1 - upper_tail(count - least + 1, count, 1 - p);
  double sum = 0;
  for (double i = k; i <= n && term > sum * 1e-16; ++i) {
    sum += term;
    term *= (n - i) / (i + 1) * (p / (1 - p));
  }
  return std::min(sum, 1.0);
}

// Returns the least share of numbers near halfway that GPTQ gave, with a margin: the more noise, the smaller.
double least_share_near_halfway(double noise) { return std::clamp(0.7 - 0.75 * (noise - 0.1), 0.55, 0.7); }

double share(std::int64_t part, std::int64_t all) { return static_cast<double>(part) / static_cast<double>(all); }

}  // namespace

void RoundingNoise::add(double exact, double stored, std::size_t row) {
  ++counts_.elements;
  const double distance = std::abs(stored - exact);
  largest_distance_ = std::max(largest_distance_, distance);
  constexpr double nearest = 0.5 + 1e-3;
  if (!(distance > nearest)) return;
  ++counts_.others;
  counts_.above += stored > exact ? 1 : 0;
  counts_.near_halfway += std::abs(exact - std::nearbyint(exact)) > 0.25 ? 1 : 0;
  ++rows_.at(row);
}

RoundingCounts RoundingNoise::counts() const {
  RoundingCounts counts = counts_;
  counts.rows = static_cast<std::int64_t>(rows_.size());
  if (counts.others == 0) return counts;
  counts.fullest_row = *std::ranges::max_element(rows_);
  const std::int64_t below = counts.others - counts.above;
  counts.p_sides = std::min(1.0, 2 * upper_tail(std::max(counts.above, below), counts.others, 0.5));
  counts.p_halfway = upper_tail(counts.others - counts.near_halfway, counts.others,
                                1 - least_share_near_halfway(share(counts.others, counts.elements)));
  if (counts.rows > 1) {
    const double tail = upper_tail(counts.fullest_row, counts.others, 1 / static_cast<double>(counts.rows));
    counts.p_rows = std::min(1.0, static_cast<double>(counts.rows) * tail);
  }
  const auto note = [&](bool is_unlike, const std::string& text) {
    if (is_unlike) counts.unlike_noise += (counts.unlike_noise.empty() ? "" : ", ") + text;
  };
  // In large tensors, small differences are significant; rows differ by their largest elements.
  const bool is_one_sided = std::abs(share(counts.above, counts.others) - 0.5) > 0.05;
  const bool is_in_few_rows = counts.fullest_row * counts.rows > 4 * counts.others;
  note(counts.p_sides < significant && is_one_sided, std::to_string(counts.above) + " are above the nearest");
  note(counts.p_halfway < significant,
       std::to_string(counts.others - counts.near_halfway) + " are far from halfway between two integers");
  note(counts.p_rows < significant && is_in_few_rows,
       std::to_string(counts.fullest_row) + " are in one of " + std::to_string(counts.rows) + " rows");
  return counts;
}

}  // namespace whence::derivation
