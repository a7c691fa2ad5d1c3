#include "schema/path_conditions.h"

#include <algorithm>

namespace whence {

namespace {

// Returns the relation of b to a for a relation of a to b.
Relation reversed(Relation relation) {
  switch (relation) {
    case Relation::less:
      return Relation::greater;
    case Relation::greater:
      return Relation::less;
    case Relation::at_most:
      return Relation::at_least;
    case Relation::at_least:
      return Relation::at_most;
    default:
      return relation;
  }
}

SizeRange narrowed(SizeRange range, Relation relation, std::int64_t number) {
  switch (relation) {
    case Relation::equal:
      return {std::max(range.min, number), std::min(range.max, number)};
    case Relation::different:
      if (number == range.min) ++range.min;
      if (number == range.max) --range.max;
      return range;
    case Relation::less:
      return {range.min, std::min(range.max, number - 1)};
    case Relation::at_most:
      return {range.min, std::min(range.max, number)};
    case Relation::greater:
      return {std::max(range.min, number + 1), range.max};
    case Relation::at_least:
      return {std::max(range.min, number), range.max};
  }
  return range;
}

}  // namespace

Relation negated(Relation relation) {
  switch (relation) {
    case Relation::equal:
      return Relation::different;
    case Relation::different:
      return Relation::equal;
    case Relation::less:
      return Relation::at_least;
    case Relation::at_most:
      return Relation::greater;
    case Relation::greater:
      return Relation::at_most;
    case Relation::at_least:
      return Relation::less;
  }
  return relation;
}

SizeRange range_under(const std::vector<Comparison>& conditions, const Size& size, const SymbolRanges& ranges) {
  SizeRange range = range_of(size, ranges);
  for (const Comparison& each : conditions) {
    const Size difference = each.left - each.right;  // compared with 0
    if (const auto constant = (difference - size).integer()) {
      range = narrowed(range, each.relation, -*constant);
    } else if (const auto sum = (difference + size).integer()) {
      range = narrowed(range, reversed(each.relation), *sum);
    }
  }
  return range;
}

}  // namespace whence
