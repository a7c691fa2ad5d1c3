#include "annotator/text/nearest_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace whence {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string_view>& names,
                                       std::size_t count) {
  const std::string want = lower(wanted);
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const std::string_view name : names) {
    const std::string have = lower(name);
    const bool part = !want.empty() && have.find(want) != std::string::npos;
    ranked.emplace_back(part ? (have.size() - want.size()) / 8 : edit_distance(want, have), name);
  }
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < count; ++i) nearest.emplace_back(ranked[i].second);
  return nearest;
}

std::string nearest_remedy(std::string_view wanted, const std::vector<std::string_view>& names,
                           const std::string& otherwise) {
  constexpr std::size_t shown = 3;
  std::string near;
  for (const std::string& name : nearest_names(wanted, names, shown)) {
    if (!name.empty()) near += (near.empty() ? "" : ", ") + name;
  }
  return near.empty() ? otherwise : "the nearest are " + near;
}

}  // namespace whence
