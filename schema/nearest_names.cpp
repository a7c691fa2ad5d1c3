#include "schema/nearest_names.h"

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

// Optimal string alignment distance: insertions, deletions, substitutions and swaps of adjacent letters cost 1.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view unknown_name, const std::vector<std::string_view>& names,
                                       std::size_t count) {
  const std::string query = lower(unknown_name);
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const std::string_view name : names) {
    const std::string candidate = lower(name);
    const bool part = !query.empty() && candidate.find(query) != std::string::npos;
    ranked.emplace_back(part ? (candidate.size() - query.size()) / 8 : edit_distance(query, candidate), name);
  }
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < count; ++i) nearest.emplace_back(ranked[i].second);
  return nearest;
}

std::string nearest_remedy(std::string_view unknown_name, const std::vector<std::string_view>& names,
                           const std::string& otherwise) {
  constexpr std::size_t suggestions = 3;
  std::string near;
  for (const std::string& name : nearest_names(unknown_name, names, suggestions)) {
    if (!name.empty()) near += (near.empty() ? "" : ", ") + name;
  }
  return near.empty() ? otherwise : "the nearest are " + near;
}

std::optional<std::string> nearest(std::string_view unknown_name, const std::vector<std::string>& names) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, unknown_name.size() / 3) + 1;
  for (const std::string& word : names) {
    // A prefix of at least three letters is an abbreviation, whatever the length of the word.
    const bool prefix = unknown_name.size() >= 3 && word.starts_with(unknown_name);
    const std::size_t distance = prefix ? 1 : edit_distance(unknown_name, word);
    if (distance < best_distance && distance < word.size()) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace whence
