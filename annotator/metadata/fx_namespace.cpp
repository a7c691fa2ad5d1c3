#include "annotator/metadata/fx_namespace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace whence::metadata {
namespace {

// Keywords and built-in names of Python that may be names of operators; torch.fx never uses them as node names. Sorted.
constexpr std::array<std::string_view, 52> reserved = {
    "abs",    "all",    "and",  "any",    "ascii", "bin",    "bool",   "bytes",    "complex", "device", "dict",
    "divmod", "eval",   "exec", "filter", "float", "format", "hash",   "hex",      "id",      "in",     "inf",
    "input",  "int",    "is",   "iter",   "len",   "list",   "map",    "max",      "min",     "nan",    "next",
    "not",    "object", "or",   "pow",    "range", "repr",   "return", "reversed", "round",   "set",    "slice",
    "sorted", "str",    "sum",  "torch",  "tuple", "type",   "vars",   "zip"};
static_assert(std::ranges::is_sorted(reserved));

std::string numbered(const std::string& base, std::int64_t number) { return base + "_" + std::to_string(number); }

// Splits "view_12" into "view" and 12; the number is -1 if there is none.
std::pair<std::string, std::int64_t> split(const std::string& candidate) {
  const std::size_t digits = candidate.find_last_not_of("0123456789") + 1;
  const bool has_number = digits > 0 && digits < candidate.size() && candidate[digits - 1] == '_';
  if (!has_number || candidate.size() - digits > 9) return {candidate, -1};
  return {candidate.substr(0, digits - 1), std::stoll(candidate.substr(digits))};
}

}  // namespace

std::string FxNamespace::create(std::string candidate) {
  for (char& c : candidate) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (candidate.empty()) candidate = "_unnamed";
  if (std::isdigit(static_cast<unsigned char>(candidate[0])) != 0) candidate.insert(0, "_");

  const auto [base, number] = split(candidate);
  std::int64_t& last = counts_[base];
  std::int64_t count = number;
  if (number < 0 || used_.contains(candidate)) {
    count = last;
    if (std::ranges::binary_search(reserved, candidate)) candidate = numbered(base, ++count);
  }
  while (!used_.insert(candidate).second) candidate = numbered(base, ++count);
  last = count;
  return candidate;
}

}  // namespace whence::metadata
