#include "recorder/script/parts.h"

#include <algorithm>

#include "recorder/script/recording.h"
#include "schema/operator_facts.h"

namespace whence::recorder::script {

namespace {

Term number(std::int64_t value) { return Term::literal(c10::IValue(value)); }

// Writes the integer operations that compute where a part begins and ends.
class Arithmetic {
 public:
  Arithmetic(Recording& recording, const Origin& origin) : recording_(recording), origin_(origin) {}

  Term add(const Term& a, const Term& b) { return combined("aten::add", a, b, std::plus<>()); }
  Term subtract(const Term& a, const Term& b) { return combined("aten::sub", a, b, std::minus<>()); }
  Term multiply(const Term& a, const Term& b) { return combined("aten::mul", a, b, std::multiplies<>()); }
  Term maximum(const Term& a, const Term& b) {
    return combined("prim::max", a, b, [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
  }
  // Both require that the second number is positive.
  Term quotient(const Term& a, const Term& b) { return combined("aten::floordiv", a, b, floor_quotient); }
  Term remainder(const Term& a, const Term& b) {
    return combined("aten::remainder", a, b,
                    [](std::int64_t x, std::int64_t y) { return x - floor_quotient(x, y) * y; });
  }

  Term size(const Term& tensor, std::int64_t axis) {
    const auto& dims = recording_.values.type(tensor.id).dims;
    const Dim& dim = dims->at(static_cast<std::size_t>(axis));
    if (dim.is_static()) return number(dim.size);
    return write("aten::size", {{"self", program::argument(tensor, nullptr)}, {"dim", {axis}}}, {tensor},
                 [&](int run) -> std::optional<c10::IValue> {
                   const auto seen = tensor.at(run);
                   return seen ? std::optional(c10::IValue(seen->toTensor().size(axis))) : std::nullopt;
                 });
  }

 private:
  Term combined(const char* target, const Term& a, const Term& b, const auto& compute) {
    const auto in_run = [&](int run) -> std::optional<c10::IValue> {
      const auto x = a.integer_at(run), y = b.integer_at(run);
      return x && y ? std::optional(c10::IValue(static_cast<std::int64_t>(compute(*x, *y)))) : std::nullopt;
    };
    if (a.settled() && b.settled()) return Term::literal(*in_run(0));
    return write(target, {{"a", program::argument(a, nullptr)}, {"b", program::argument(b, nullptr)}}, {a, b}, in_run);
  }

  Term write(const char* target, std::vector<NamedArgument> arguments, const std::vector<Term>& terms,
             const auto& in_run) {
    Node node;
    node.target = target;
    node.overload = "int";
    node.arguments = std::move(arguments);
    node.origin = origin_;
    RunValues seen = recording_.runs.each(in_run);
    const Type integer{ValueKind::integer, DType::int64, std::nullopt};
    const ValueId id = recording_.values.add("part", ValueSource::node, integer);
    node.outputs.push_back(id);
    Term result = Term::of_value(id, std::move(seen));
    recording_.sizes.derive(terms, node, {result});
    recording_.writer.write(std::move(node));
    return result;
  }

  Recording& recording_;
  const Origin& origin_;
};

// Returns the number of pieces; an empty axis has one empty piece.
Term number_of_pieces(Arithmetic& compute, const Cut& cut) {
  const Term length = compute.maximum(*cut.length, number(1));
  const Term padded = compute.add(compute.size(cut.tensor, cut.axis), compute.subtract(length, number(1)));
  return compute.maximum(compute.quotient(padded, length), number(1));
}

}  // namespace

std::optional<Cut> cut_of(Recording& recording, const Node& node, const std::vector<Term>& arguments) {
  const std::vector<Dim>* dims = nullptr;
  if (!arguments.empty() && arguments.front().is_value()) {
    const auto& known = recording.values.type(arguments.front().id).dims;
    dims = known ? &*known : nullptr;
  }
  const Argument* dim = node.find("dim");
  const auto* axis = dim == nullptr ? nullptr : dim->as<std::int64_t>();
  if (!facts_of(node.target).parts || node.overload == "sizes" || dims == nullptr || axis == nullptr) {
    return std::nullopt;
  }
  Cut cut{arguments.front(), *axis < 0 ? *axis + static_cast<std::int64_t>(dims->size()) : *axis, std::nullopt};
  if (node.target == "aten::unbind") return cut;
  if (node.target != "aten::chunk") {
    cut.length = arguments.at(1);
    return cut;
  }
  // Rounds up, as chunk does.
  Arithmetic compute(recording, node.origin);
  const Term &chunks = arguments.at(1), size = compute.size(cut.tensor, cut.axis);
  cut.length = compute.quotient(compute.add(size, compute.subtract(chunks, number(1))), chunks);
  cut.by_count = true;
  return cut;
}

PartView view_of_part(Recording& recording, const Cut& cut, const Term& index, const Origin& origin) {
  Node node;
  node.origin = origin;
  node.arguments = {{"self", program::argument(cut.tensor, nullptr)}, {"dim", {cut.axis}}};
  if (!cut.length) {
    node.target = "aten::select";
    node.overload = "int";
    node.arguments.push_back({"index", program::argument(index, nullptr)});
    return {std::move(node), {cut.tensor, index}};
  }
  Arithmetic compute(recording, origin);
  const auto settled = index.settled();
  const bool from_front = settled && settled->isInt() && settled->toInt() >= 0;
  const Term place = from_front ? index : compute.remainder(index, number_of_pieces(compute, cut));
  const Term start = compute.multiply(place, *cut.length), end = compute.add(start, *cut.length);
  node.target = "aten::slice";
  node.overload = "Tensor";
  node.arguments.push_back({"start", program::argument(start, nullptr)});
  node.arguments.push_back({"end", program::argument(end, nullptr)});
  node.arguments.push_back({"step", {std::int64_t{1}}});
  return {std::move(node), {cut.tensor, start, end}};
}

std::optional<Term> number_of_parts(Recording& recording, const Cut& cut, const Origin& origin) {
  if (cut.by_count) return std::nullopt;
  Arithmetic compute(recording, origin);
  return cut.length ? number_of_pieces(compute, cut) : compute.size(cut.tensor, cut.axis);
}

}  // namespace whence::recorder::script
