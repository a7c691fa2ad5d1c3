// x -> Cast(to: B) -> Cast(to: C)                      before
// x ----------------> Cast(to: C)                      after; the first Cast stays for its other users
// Condition: B can represent every value of x's dtype, so the first Cast loses nothing. Origins: joined.
#include "annotator/simplify/rule.h"

namespace whence::simplify {

namespace {

// The number of magnitude bits that a dtype represents exactly, and its range as a power of two.
struct Precision {
  bool integral = false, is_signed = false;
  int exact_bits = 0, exponent = 0;
};

std::optional<Precision> precision(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return Precision{true, false, 1, 1};
    case DType::uint8:
      return Precision{true, false, 8, 8};
    case DType::int8:
      return Precision{true, true, 7, 7};
    case DType::uint16:
      return Precision{true, false, 16, 16};
    case DType::int16:
      return Precision{true, true, 15, 15};
    case DType::uint32:
      return Precision{true, false, 32, 32};
    case DType::int32:
      return Precision{true, true, 31, 31};
    case DType::uint64:
      return Precision{true, false, 64, 64};
    case DType::int64:
      return Precision{true, true, 63, 63};
    case DType::float16:
      return Precision{false, true, 11, 15};
    case DType::bfloat16:
      return Precision{false, true, 8, 127};
    case DType::float32:
      return Precision{false, true, 24, 127};
    case DType::float64:
      return Precision{false, true, 53, 1023};
    default:
      return std::nullopt;
  }
}

bool represents_all(DType wide, DType narrow) {
  const auto w = precision(wide);
  const auto n = precision(narrow);
  if (!w || !n || wide == DType::boolean) return wide == narrow && w.has_value();
  if (w->integral && !n->integral) return false;
  if (n->is_signed && !w->is_signed) return false;
  return w->exact_bits >= n->exact_bits && w->exponent >= n->exponent;
}

}  // namespace

Outcome cast_chain(Rewriter& rewriter, std::int32_t index) {
  const graph::GraphNode& outer = rewriter.node(index);
  if (!is(outer, "Cast")) return no_match();
  const graph::GraphNode* inner = rewriter.producer(outer.inputs[0], "Cast");
  if (inner == nullptr) return no_match();
  const graph::GraphValueId source = inner->inputs[0];
  const DType between = rewriter.value(outer.inputs[0]).dtype;
  if (!represents_all(between, rewriter.value(source).dtype)) return refused("the first Cast may round");
  rewriter.set_origin(index, joined(inner->origin, outer.origin));
  rewriter.set_input(index, 0, source);
  return changed();
}

}  // namespace whence::simplify
