// segment_reduce: reduces consecutive rows by segments; each segment becomes one row.
#include <limits>
#include <string>
#include <vector>

#include "annotator/convert/broadcast.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"

namespace whence::convert {
namespace {

// The bounds of the segments. Row i belongs to the segment whose number is the count of bounds at or before i. Offsets
// have a bound before the first segment and one after the last; lengths that PyTorch does not check have one after the
// last. Result rows for data outside the segments are cut off.
struct Segments {
  Val bounds;   // int64 [count]
  bool before;  // true if rows may precede the first segment
  bool after;   // true if rows may follow the last one
};

Segments segments(Ctx& c) {
  if (c.has("indices")) c.refuse("segment_reduce by indices is not supported", "pass lengths or offsets");
  const bool has_offsets = c.has("offsets");
  const Val partition = c.cast(c.tensor(has_offsets ? "offsets" : "lengths"), DType::int64);
  if (c.rank(partition) != 1 || c.axis(c.integer("axis"), c.rank(c.tensor("data"))) != 0) {
    c.refuse("segments along an axis other than the first are not supported",
             "bring the axis to the front with movedim");
  }
  if (has_offsets) return {partition, true, true};
  return {c.typed(c.emit("CumSum", {partition, c.constant_int(0)}), DType::int64, c.dims(partition)), false,
          c.flag("unsafe")};
}

// Returns for each row of the data the number of its result row, int64 [rows, 1].
Val row_of_each(Ctx& c, const Segments& segments, Val rows) {
  const Val row_numbers = c.emit("Range", {c.constant_int(0), rows, c.constant_int(1)});
  const Val passed = c.typed(c.emit("LessOrEqual", {c.unsqueeze(segments.bounds, {1}), row_numbers}), DType::boolean);
  return c.unsqueeze(reduce(c, "ReduceSum", c.cast(passed, DType::int64), {0}, false), {1});
}

double neutral(const std::string& reduction) {
  if (reduction == "prod") return 1;
  if (reduction == "max") return -std::numeric_limits<double>::infinity();
  return reduction == "min" ? std::numeric_limits<double>::infinity() : 0;
}

// Reductions "add", "mul", "max" and "min" of ScatterND over segments of rows [rows, *].
class SegmentReduction {
 public:
  SegmentReduction(Ctx& c, Val data) : c_(c), segments_(segments(c)) {
    rows_ = row_of_each(c, segments_, c.dim_of(data, 0));
    Val count = c.dim_of(segments_.bounds, 0);
    if (segments_.after) count = c.emit("Add", {count, c.constant_int(1)});
    shape_ = shape_of(c, data);
    shape_.front() = count;
  }

  // Starts from `initial`, [] in the dtype of `values`; leaves out the rows outside the segments.
  Val run(Val values, Val initial, const std::string& how) {
    const Val start = c_.emit("Expand", {initial, c_.to_vector(shape_)});
    const Val reduced = c_.emit("ScatterND", {start, rows_, values}, {{"reduction", how}});
    if (!segments_.after) return reduced;
    const Val first = c_.constant_ints({segments_.before ? 1 : 0});
    return c_.emit("Slice", {reduced, first, c_.constant_ints({-1}), c_.constant_ints({0})});
  }

 private:
  Ctx& c_;
  Segments segments_;
  Val rows_;
  std::vector<Size> shape_;
};

void segment_reduce(Ctx& c) {
  const std::string reduction = c.one_of("reduce", {"sum", "mean", "max", "min", "prod"});
  const bool extreme = reduction == "max" || reduction == "min";
  const int since = extreme ? 18 : 16;
  if (c.opset() < since) {
    c.refuse("ScatterND lacks this reduction before opset " + std::to_string(since),
             "use --opset " + std::to_string(since) + " or newer");
  }
  const Val data = c.tensor("data");
  const DType dtype = c.output_dtype();
  SegmentReduction over(c, data);
  const Val initial = c.has("initial") ? c.scalar("initial", dtype) : c.constant_number(neutral(reduction), dtype);
  const std::string how = extreme ? reduction : reduction == "prod" ? "mul" : "add";
  Val reduced = over.run(data, initial, how);
  if (reduction == "mean") {
    const Val zero = c.constant_number(0, dtype), one = c.constant_number(1, dtype);
    const Val ones = c.emit("Expand", {one, c.emit("Shape", {data})});
    Val count = over.run(ones, zero, "add");
    // The mean of an empty segment is NaN, or the initial value if there is one.
    if (c.has("initial")) count = c.emit("Max", {count, one});
    reduced = c.emit("Div", {reduced, count});
  }
  if (extreme) {  // ScatterND compares elements, so it keeps or loses NaN by chance
    const Val marks = c.cast(c.typed(c.emit("IsNaN", {data}), DType::boolean, c.dims(data)), DType::float32);
    const Val marked = c.typed(over.run(marks, c.constant_number(0, DType::float32), "max"), DType::float32);
    const Val nan = c.constant_number(std::numeric_limits<double>::quiet_NaN(), dtype);
    reduced = c.emit("Where", {c.cast(marked, DType::boolean), nan, reduced});
  }
  c.yield(reduced);
}

const OpEntry kSegment[] = {
    {"aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
     "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
     segment_reduce},
};

}  // namespace

OpFamily segment_ops() { return kSegment; }

}  // namespace whence::convert
