// Fits a size to its values in a few runs, simplest form first.
#include "schema/fit.h"

#include <algorithm>
#include <set>

namespace whence {

namespace {

using Numbers = std::vector<std::int64_t>;

bool fits_all(const Numbers& numbers, const Numbers& sizes, const auto& rule) {
  return std::ranges::equal(numbers, sizes,
                            [&](std::int64_t number, std::int64_t size) { return number == rule(size); });
}

std::optional<Size> multiple(const Numbers& numbers, const SeenSize& of) {
  if (of.numbers[0] == 0 || numbers[0] % of.numbers[0] != 0) return std::nullopt;
  const std::int64_t factor = numbers[0] / of.numbers[0];
  const bool fits = fits_all(numbers, of.numbers, [&](std::int64_t size) { return factor * size; });
  return fits ? std::optional(factor * of.size) : std::nullopt;
}

// Any two points are on a line, so a factor other than 1 needs three different sizes.
std::optional<Size> linear(const Numbers& numbers, const SeenSize& of) {
  const Numbers& seen = of.numbers;
  const auto other = std::ranges::find_if(seen, [&](std::int64_t size) { return size != seen[0]; });
  if (other == seen.end()) return std::nullopt;
  const std::int64_t run = *other - seen[0],
                     rise = numbers[static_cast<std::size_t>(other - seen.begin())] - numbers[0];
  if (rise == 0 || rise % run != 0) return std::nullopt;
  const std::int64_t factor = rise / run, offset = numbers[0] - factor * seen[0];
  if (factor != 1 && std::set(seen.begin(), seen.end()).size() < 3) return std::nullopt;
  const bool fits = fits_all(numbers, seen, [&](std::int64_t size) { return factor * size + offset; });
  return fits ? std::optional(factor * of.size + offset) : std::nullopt;
}

// Adds the quotients (n + k) // d + l that fit the numbers, as windows and strides produce them.
void add_quotients(const Numbers& numbers, const SeenSize& of, std::int64_t max_divisor, std::vector<Size>& found) {
  for (std::int64_t divisor = 2; divisor <= max_divisor; ++divisor) {
    for (std::int64_t more = 0; more < divisor; ++more) {
      const auto rounded = [&](std::int64_t size) { return floor_quotient(size + more, divisor); };
      const std::int64_t offset = numbers[0] - rounded(of.numbers[0]);
      const bool fits = fits_all(numbers, of.numbers, [&](std::int64_t size) { return rounded(size) + offset; });
      if (fits) found.push_back(floor_div(of.size + more, divisor) + offset);
    }
  }
}

std::optional<Size> multiple_of_two(const Numbers& numbers, const std::vector<SeenSize>& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (std::size_t j = i; j < sizes.size(); ++j) {
      SeenSize product{sizes[i].size * sizes[j].size, {}};
      for (std::size_t run = 0; run < numbers.size(); ++run) {
        product.numbers.push_back(sizes[i].numbers[run] * sizes[j].numbers[run]);
      }
      if (auto found = multiple(numbers, product)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Size> fit_size(const std::vector<std::int64_t>& numbers, const std::vector<SeenSize>& sizes,
                             std::int64_t max_divisor) {
  std::optional<Size> found;
  const auto first = [&](const auto& form) {
    for (const SeenSize& each : sizes) {
      if (!found) found = form(each);
    }
  };
  first([&](const SeenSize& each) { return multiple(numbers, each); });
  first([&](const SeenSize& each) { return linear(numbers, each); });
  if (!found) found = multiple_of_two(numbers, sizes);
  if (found) return found;
  std::vector<Size> quotients;
  for (const SeenSize& each : sizes) add_quotients(numbers, each, max_divisor, quotients);
  return quotients.size() == 1 ? std::optional(quotients.front()) : std::nullopt;
}

}  // namespace whence
