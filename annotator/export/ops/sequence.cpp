// Lists whose length depends on data, as ONNX sequences. They do not change in place, so an operation that changes one
// is recorded with the changed list as its result (recorder/evaluate_sequence.cpp), unlike PyTorch's schemas.
#include "annotator/export/ops/families.h"

namespace whence {
namespace {

Val index_of(Ctx& c) { return c.to_scalar_value(c.size("idx")); }

// A number in a list is of the dtype of the list.
Val element(Ctx& c, Val list) {
  return c.dtype(list) == DType::undefined ? c.tensor("el") : c.scalar("el", c.dtype(list));
}

void construct(Ctx& c) {
  std::vector<Val> elements = c.tensors("elements");
  if (!elements.empty()) {
    for (Val& each : elements) each = c.cast(each, c.output_dtype());
    return c.yield(c.emit("SequenceConstruct", std::move(elements)));
  }
  // Where nothing is ever put into the list its dtype is not known; any will do.
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

// The index counted from the front: with an element less, a negative one means another place.
Val place_of(Ctx& c, Val list) {
  const Size given = c.size("idx");
  const auto known = c.static_size(given);
  const Val index = c.to_scalar_value(given);
  if (known && *known >= 0) return index;
  const Val from_end = c.emit("Add", {index, c.emit("SequenceLength", {list})});
  if (known) return from_end;
  return c.emit("Where", {c.emit("Less", {index, c.constant_int(0)}), from_end, index});
}

void replace(Ctx& c) {
  const Val list = c.sequence("self"), place = place_of(c, list), shorter = c.emit("SequenceErase", {list, place});
  c.yield(c.emit("SequenceInsert", {shorter, element(c, list), place}));
}

void read(Ctx& c) { c.yield(c.emit("SequenceAt", {c.sequence("self"), index_of(c)})); }

void length(Ctx& c) { c.yield(c.emit("SequenceLength", {c.sequence("self")})); }

const OpEntry kSequence[] = {
    {"aten::Delete.t(Tensor[] self, int idx) -> Tensor[]", erase},
    {"aten::__getitem__.t(Tensor[] self, int idx) -> Tensor", read},
    {"aten::_set_item.t(Tensor[] self, int idx, Tensor el) -> Tensor[]", replace},
    {"aten::append.t(Tensor[] self, Tensor el) -> Tensor[]", append},
    {"aten::insert.t(Tensor[] self, int idx, Tensor el) -> Tensor[]", insert},
    {"aten::len.t(Tensor[] self) -> int", length},
    {"prim::ListConstruct(Tensor[] elements) -> Tensor[]", construct},
};

}  // namespace

OpFamily sequence_ops() { return kSequence; }

}  // namespace whence
