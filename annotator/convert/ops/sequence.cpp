// Lists whose length depends on data, as ONNX sequences. Sequences cannot change in place, so an operation that changes
// a list is recorded with the changed list as its result (recorder/script/sequences.cpp), unlike in PyTorch's schemas.
#include "annotator/convert/ops/families.h"

namespace whence::convert {

namespace {

Val index_of(Ctx& c) { return c.to_scalar_value(c.size("idx")); }

// A number in a list has the dtype of the list.
Val element(Ctx& c, Val list) {
  return c.dtype(list) == DType::undefined ? c.tensor("el") : c.scalar("el", c.dtype(list));
}

void construct(Ctx& c) {
  std::vector<Val> elements = c.tensors("elements");
  if (!elements.empty()) {
    for (Val& each : elements) each = c.cast(each, c.output_dtype());
    return c.yield(c.emit("SequenceConstruct", std::move(elements)));
  }
  // If nothing is ever put into the list, its dtype is unknown, and any dtype will do.
  const DType dtype = c.output_dtype() == DType::undefined ? DType::float32 : c.output_dtype();
  c.yield(c.typed(c.emit("SequenceEmpty", {}, {{"dtype", static_cast<std::int64_t>(to_onnx(dtype))}}), dtype));
}

void append(Ctx& c) {
  const Val list = c.sequence("self");
  c.yield(c.emit("SequenceInsert", {list, element(c, list)}));
}

void insert(Ctx& c) {
  const Val list = c.sequence("self");
  c.yield(c.emit("SequenceInsert", {list, element(c, list), index_of(c)}));
}

void erase(Ctx& c) { c.yield(c.emit("SequenceErase", {c.sequence("self"), index_of(c)})); }

// Returns the index counted from the front: once an element is erased, a negative index would mean another element.
Val index_from_front(Ctx& c, Val list) {
  const Size idx = c.size("idx");
  const auto known = c.static_size(idx);
  const Val index = c.to_scalar_value(idx);
  if (known && *known >= 0) return index;
  const Val from_end = c.emit("Add", {index, c.emit("SequenceLength", {list})});
  if (known) return from_end;
  return c.emit("Where", {c.emit("Less", {index, c.constant_int(0)}), from_end, index});
}

void replace(Ctx& c) {
  const Val list = c.sequence("self"), index = index_from_front(c, list),
            shorter = c.emit("SequenceErase", {list, index});
  c.yield(c.emit("SequenceInsert", {shorter, element(c, list), index}));
}

void read(Ctx& c) { c.yield(c.emit("SequenceAt", {c.sequence("self"), index_of(c)})); }

void length(Ctx& c) { c.yield(c.emit("SequenceLength", {c.sequence("self")})); }

// ---- lists of numbers, also of known length ---------------------------------------------------------------------

// Returns the numbers as a vector [n]. An empty sequence cannot be concatenated, so an extra element is inserted in
// front and cut off afterwards.
Val numbers(Ctx& c, std::string_view name, DType dtype) {
  if (const Val list = c.sequence(name)) {
    const Val longer = c.emit("SequenceInsert", {list, c.constant_number(0, c.dtype(list)), c.constant_int(0)});
    const Val joined = c.emit("ConcatFromSequence", {longer}, {{"axis", 0}, {"new_axis", 1}});
    const Val rest =
        c.emit("Slice", {joined, c.constant_ints({1}), c.constant_ints({INT64_MAX}), c.constant_ints({0})});
    return c.cast(c.typed(rest, c.dtype(list)), dtype);
  }
  std::vector<Val> elements = c.tensors(name);
  if (elements.empty()) return c.constant_tensor({dtype, {0}, {}});
  for (Val& element : elements) element = c.unsqueeze(c.cast(element, dtype), {0});
  return elements.size() == 1 ? elements[0] : c.emit("Concat", elements, {{"axis", 0}});
}

Val sum_of(Ctx& c, Val vector) { return c.emit("ReduceSum", {vector}, {{"keepdims", std::int64_t{0}}}); }

void sum(Ctx& c) { c.yield(sum_of(c, numbers(c, "self", c.output_dtype()))); }

// Counts the elements that equal a number.
Val count_of(Ctx& c, std::string_view list, std::string_view element, DType dtype) {
  const Val equal = c.emit("Equal", {numbers(c, list, dtype), c.scalar(element, dtype)});
  return c.typed(sum_of(c, c.cast(c.typed(equal, DType::boolean), DType::int64)), DType::int64, std::vector<Dim>());
}

template <DType dtype>
void count(Ctx& c) {
  c.yield(count_of(c, "self", "el", dtype));
}

template <DType dtype>
void contains(Ctx& c) {
  c.yield(c.emit("Greater", {count_of(c, "l", "item", dtype), c.constant_int(0)}));
}

// torch.tensor([1, 2, 3])
void tensor(Ctx& c) { c.yield(numbers(c, "data", c.output_dtype())); }

// A result of the model that may be None, depending on data. The recorder defines this operator; TorchScript has none.
void optional(Ctx& c) {
  constexpr int first_opset = 15;
  if (c.opset() < first_opset)
    c.refuse("a result that is a tensor or None needs opset 15", "export with --opset 15 or higher");
  const Val content = c.optional_tensor("content");
  if (content) return c.yield(c.emit("Optional", {content}));
  c.yield(c.emit("Optional", {}, {{"type", graph::TensorType{c.output_dtype()}}}));
}

const OpEntry kSequence[] = {
    {"aten::Delete.t(Tensor[] self, int idx) -> Tensor[]", erase},
    {"aten::__contains__.float_list(float[] l, float item) -> bool", contains<DType::float64>},
    {"aten::__contains__.int_list(int[] l, int item) -> bool", contains<DType::int64>},
    {"aten::__getitem__.t(Tensor[] self, int idx) -> Tensor", read},
    {"aten::_set_item.t(Tensor[] self, int idx, Tensor el) -> Tensor[]", replace},
    {"aten::append.t(Tensor[] self, Tensor el) -> Tensor[]", append},
    {"aten::count.float(float[] self, float el) -> int", count<DType::float64>},
    {"aten::count.int(int[] self, int el) -> int", count<DType::int64>},
    {"aten::insert.t(Tensor[] self, int idx, Tensor el) -> Tensor[]", insert},
    {"aten::len.t(Tensor[] self) -> int", length},
    {"aten::sum.float(float[] self) -> float", sum},
    {"aten::sum.int(int[] self) -> int", sum},
    {"aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     tensor},
    {"prim::ListConstruct(Tensor[] elements) -> Tensor[]", construct},
    {"prim::Optional(Tensor? content=None) -> Tensor?", optional},
};

}  // namespace

OpFamily sequence_ops() { return kSequence; }

}  // namespace whence::convert
