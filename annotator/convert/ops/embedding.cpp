// Table look-ups: embedding, and embedding_bag, which reduces the rows of each bag. padding_idx, scale_grad_by_freq and
// sparse affect only gradients, except that a bag leaves out rows of padding_idx.
#include <limits>
#include <optional>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/vector_norm.h"

namespace whence::convert {
namespace {

// weight [rows, size], indices [*] -> [*, size]
void embedding(Ctx& c) { c.yield(c.emit("Gather", {c.tensor("weight"), c.tensor("indices")})); }

// Scales the rows of weight that `indices` selects down to the length max_norm if they are longer.
void embedding_renorm(Ctx& c) {
  const Val weight = c.tensor("self");
  const DType dtype = c.output_dtype();
  const Val index = c.emit("Reshape", {c.tensor("indices"), c.constant_ints({-1})});
  const Val rows = c.typed(c.emit("Gather", {weight, index}), dtype, std::vector{Dim{}, c.dims(weight)[1]});
  const Val norm = vector_norm(c, rows, c.number("norm_type"), {1}, true);
  const Val limit = c.constant_number(c.number("max_norm"), dtype);
  // ATen also adds 1e-7, so that the length is slightly below the limit.
  const Val factor = c.emit("Div", {limit, c.emit("Add", {norm, c.constant_number(1e-7, dtype)})});
  const Val cut = c.emit("Where", {c.emit("Greater", {norm, limit}), c.emit("Mul", {rows, factor}), rows});
  c.yield(c.emit("ScatterND", {weight, c.unsqueeze(c.cast(index, DType::int64), {1}), cut}));
}

enum class BagMode : std::int64_t { sum = 0, mean = 1, max = 2 };

struct Bags {
  Val weight, indices, offsets, sample_weights;
  BagMode mode = BagMode::sum;
  bool last_offset_included = false;
  std::optional<std::int64_t> padding = std::nullopt;  // index that is left out
};

Bags read(Ctx& c) {
  Bags bags{c.tensor("weight"), c.tensor("indices"), c.tensor("offsets"), c.optional_tensor("per_sample_weights")};
  bags.mode = static_cast<BagMode>(c.integer("mode"));
  bags.last_offset_included = c.flag("include_last_offset");
  if (c.schema().find("padding_idx") && c.has("padding_idx")) {
    // -1 means None in schemas that do not allow None.
    const std::int64_t padding = c.integer("padding_idx");
    const bool optional = c.schema().find("padding_idx")->type.optional;
    if (padding >= 0) bags.padding = padding;
    if (padding < 0 && optional) {
      const auto rows = c.static_dim(bags.weight, 0);
      if (!rows)
        c.refuse("a negative padding_idx of a dynamic table is not supported", "count padding_idx from the first row");
      bags.padding = padding + *rows;
    }
  }
  return bags;
}

// The rows to reduce, [n, size], multiplied by sample weights if there are any.
Val looked_up(Ctx& c, const Bags& bags) {
  const Val looked = c.emit("Gather", {bags.weight, bags.indices});
  if (!bags.sample_weights) return looked;
  return c.emit("Mul", {looked, c.unsqueeze(bags.sample_weights, {1})});
}

// Returns the common length of all bags if the offsets are constant and evenly spaced.
std::optional<std::int64_t> even_length(Ctx& c, const Bags& bags) {
  const auto total = c.static_dim(bags.indices, 0);
  const auto offsets = c.graph().integers(bags.offsets.id);
  if (!total || !offsets || offsets->empty()) return std::nullopt;
  const std::int64_t count = static_cast<std::int64_t>(offsets->size()) - (bags.last_offset_included ? 1 : 0);
  if (count <= 0 || *total % count != 0) return std::nullopt;
  const std::int64_t length = *total / count;
  for (std::size_t i = 0; i < offsets->size(); ++i) {
    if ((*offsets)[i] != static_cast<std::int64_t>(i) * length) return std::nullopt;
  }
  return length == 0 ? std::nullopt : std::optional(length);
}

Val even_bags(Ctx& c, const Bags& bags, std::int64_t length) {
  const auto size = c.static_dim(bags.weight, 1);
  if (!size) c.refuse("an embedding of dynamic size is not supported", "keep the weight's sizes fixed when exporting");
  const Val grouped = c.emit("Reshape", {looked_up(c, bags), c.constant_ints({-1, length, *size})});
  const char* const reductions[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
  return reduce(c, reductions[static_cast<std::int64_t>(bags.mode)], grouped, {1}, false);
}

// True if a row is in a bag: [bags, n], boolean.
Val membership(Ctx& c, const Bags& bags) {
  const Val count = c.dim_of(bags.indices, 0);
  const Val offsets = c.cast(bags.offsets, DType::int64);
  Val begins = offsets, ends;
  if (bags.last_offset_included) {
    begins = c.emit("Slice", {offsets, c.constant_ints({0}), c.constant_ints({-1}), c.constant_ints({0})});
    ends = c.emit("Slice", {offsets, c.constant_ints({1}), c.constant_ints({INT64_MAX}), c.constant_ints({0})});
  } else {
    const Val rest =
        c.emit("Slice", {offsets, c.constant_ints({1}), c.constant_ints({INT64_MAX}), c.constant_ints({0})});
    ends = c.emit("Concat", {rest, c.to_vector({count})}, {{"axis", 0}});
  }
  const Val position = c.emit("Range", {c.constant_int(0), count, c.constant_int(1)});
  Val member = c.emit("And", {c.emit("GreaterOrEqual", {position, c.unsqueeze(begins, {1})}),
                              c.emit("Less", {position, c.unsqueeze(ends, {1})})});
  if (bags.padding) {
    const Val padding = c.emit("Equal", {c.cast(bags.indices, DType::int64), c.constant_int(*bags.padding)});
    member = c.emit("And", {member, c.emit("Not", {padding})});
  }
  return c.typed(member, DType::boolean, std::vector<Dim>(2, Dim{-1, true, none_id}));
}

// The element-wise maximum of each bag's rows; 0 for an empty bag.
Val greatest_rows(Ctx& c, const Bags& bags, Val member) {
  const DType dtype = c.output_dtype();
  const Val minus_infinity = c.constant_number(-std::numeric_limits<double>::infinity(), dtype);
  const Val rows = c.emit("Where", {c.unsqueeze(member, {2}), looked_up(c, bags), minus_infinity});
  const Val greatest = reduce(c, "ReduceMax", c.typed(rows, dtype), {1}, false);
  const Val filled = c.cast(reduce(c, "ReduceMax", c.cast(member, DType::int32), {1}, true), DType::boolean);
  return c.emit("Where", {filled, greatest, c.constant_number(0, dtype)});
}

// Bags of any length: multiplies the rows by a 0/1 matrix that marks which row is in which bag.
Val uneven_bags(Ctx& c, const Bags& bags) {
  const DType dtype = c.output_dtype();
  const Val member = membership(c, bags);
  if (bags.mode == BagMode::max) return greatest_rows(c, bags, member);
  const Val ones = c.cast(member, dtype);
  const Val sum = c.emit("MatMul", {ones, looked_up(c, bags)});
  if (bags.mode == BagMode::sum) return sum;
  const Val lengths = c.emit("Max", {reduce(c, "ReduceSum", ones, {1}, true), c.constant_number(1, dtype)});
  return c.emit("Div", {sum, lengths});
}

// Results: the bags [bags, size], and three tables for the backward pass, which are not made.
void embedding_bag(Ctx& c) {
  const Bags bags = read(c);
  const auto length = bags.padding ? std::nullopt : even_length(c, bags);
  c.yield({length ? even_bags(c, bags, *length) : uneven_bags(c, bags), absent, absent, absent});
}

const OpEntry kEmbedding[] = {
    {"aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
     embedding_renorm},
    {"aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
     "bool sparse=False) -> Tensor",
     embedding},
    {"aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, "
     "Tensor)",
     embedding_bag},
    {"aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, "
     "int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, "
     "Tensor, Tensor, Tensor)",
     embedding_bag},
    {"aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
     "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
     "(Tensor, Tensor, Tensor, Tensor)",
     embedding_bag},
    {"aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
     "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
     "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     embedding_bag},
};

}  // namespace

OpFamily embedding_ops() { return kEmbedding; }

}  // namespace whence::convert
