// Expression: how a tensor of an ONNX file is computed from the parameters of a checkpoint. A tree of steps, whose
// leaves are parameters and tensors of the file that no checkpoint holds. evaluate.h computes it again, with the same
// checkpoint to prove it, or with another one to put new weights into the file.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "annotator/derivation/scheme.h"
#include "schema/dtype.h"

namespace whence::derivation {

// A parameter of the checkpoint, converted to `dtype` by rounding to nearest even.
struct ParameterStep {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims;  // the sizes that the checkpoint must have
  // Parameters with the same bytes that the tensor may hold instead: exporters store equal tensors once. New weights
  // are used only if they are equal in these parameters, too.
  std::vector<std::string> equals = {};
  std::vector<std::string> same_bytes = {};  // all other parameters with the same bytes; not in statements
  bool is_certain = true;                    // a name distinguishes the parameter from its equals
  // For what the program computes from parameters alone (computed_values.h): these, and how. `name` is that of the
  // value.
  std::vector<std::string> parameters = {};
  std::string recipe = {};
  bool is_rounded = false;  // its operators do arithmetic, which tools round in ways of their own; not in statements
  std::vector<std::int32_t> readers = {};  // operations of the program that read such a value; not in statements

  bool is_computed() const { return !parameters.empty(); }
};

// A tensor of the file, as it is: the range of an activation.
struct KeptStep {
  std::string tensor;
};

// A number of the program.
struct NumberStep {
  float number = 0;
};

// Elements with the indexes `first`, `first + step`, ... along the first axis.
struct Run {
  std::int64_t first = 0, count = 0, step = 1;
  friend bool operator==(const Run&, const Run&) = default;
};

struct PickStep {
  std::vector<Run> runs;
};

struct ConcatenateStep {  // along the first axis
};

struct TransposeStep {
  std::vector<std::int64_t> order;  // axis i of the result is axis order[i] of the input
};

struct ReshapeStep {
  std::vector<std::int64_t> dims;
};

// A range of float16 converters: numbers other than 0 whose size is less or larger become its ends.
struct CastRange {
  float least = 0, largest = std::numeric_limits<float>::infinity();
  bool keeps_sign = true;  // false: small negative numbers become the positive end

  bool is_limited() const { return least > 0; }
};

// All numbers; those of onnxconverter-common, of onnxruntime.transformers and of NVIDIA's modelopt.
inline constexpr std::array<CastRange, 4> cast_ranges = {
    {{}, {1e-7F, 1e4F}, {5.96e-8F, 65504}, {5.9604645e-8F, 65504, false}}};

// Conversion to another dtype, of numbers that are first put into a range.
struct CastStep {
  DType dtype = DType::float16;
  CastRange range = {};
};

// A norm that was folded into the product before it. Inputs: the weight or bias of the product; scale, shift, mean and
// variance of the norm. A product without bias has mean and shift only.
enum class FoldArithmetic : std::uint8_t {
  in_double,         // all in double precision, rounded at the end
  divide_by_root,    // factor = scale / sqrt(variance + epsilon)
  multiply_by_root,  // factor = scale * (1 / sqrt(variance + epsilon))
  factor_in_double,  // the factor in double precision, then single precision
};
// In the order of their use by tools.
inline constexpr std::array fold_arithmetics = {FoldArithmetic::divide_by_root, FoldArithmetic::in_double,
                                                FoldArithmetic::factor_in_double, FoldArithmetic::multiply_by_root};

struct FoldStep {
  FoldArithmetic arithmetic = FoldArithmetic::divide_by_root;
  double epsilon = 1e-5;
  bool is_bias = false;
  bool has_bias = false;  // inputs[0] is the product's own bias; false: there is none, and inputs[0] is the scale
  bool is_affine = true;  // false: the norm has neither scale nor shift
  std::int64_t axis = 0;  // of the weight, with the norm's channels
};

// An operation with one number for each channel, or one for all. Inputs: the tensor; the numbers, in any sizes.
struct ByChannelStep {
  enum class Operation : std::uint8_t { multiply, add };
  Operation operation = Operation::multiply;
  std::int64_t axis = 0;  // of the tensor, with the channels
};

// Zeros after the elements of each axis, up to these sizes.
struct PadStep {
  std::vector<std::int64_t> dims;
};

// The part of a quantised tensor: its integers, or the scale or zero point of each group.
struct QuantiseStep {
  enum class Part : std::uint8_t { integers, scales, zero_points };
  Scheme scheme;
  Part part = Part::integers;
};

// A bias as 32-bit integers. Inputs: the bias; the scale of the product's input; the scale of its weight.
struct QuantiseBiasStep {
  bool is_scale = false;  // the scale of the integers, not the integers
};

struct Expression {
  std::variant<ParameterStep, KeptStep, NumberStep, PickStep, ConcatenateStep, TransposeStep, ReshapeStep, CastStep,
               FoldStep, ByChannelStep, PadStep, QuantiseStep, QuantiseBiasStep>
      step;
  std::vector<Expression> inputs = {};
};

// Returns the expression as text: "quantise int8 per channel(transpose(encoder.layer.0.query.weight))".
std::string to_text(const Expression& expression);

// Returns the sizes of an expression's value, before it is quantised. Throws Error(corrupt_file) for steps that
// contradict each other.
std::vector<std::int64_t> dims_of(const Expression& expression);

// Returns true for one complete parameter, moved, converted or quantised.
bool is_whole_parameter(const Expression& expression);

// Calls visit(name) for each parameter of the checkpoint that the step reads, equal ones included.
template <class Visit>
void for_each_name(const ParameterStep& step, Visit&& visit) {
  if (!step.is_computed()) visit(step.name);
  for (const std::string& name : step.parameters) visit(name);
  for (const std::string& name : step.equals) visit(name);
}

// Calls visit(const ParameterStep&) for each parameter, from left to right.
template <class Visit>
void for_each_parameter(const Expression& expression, Visit&& visit) {
  if (const auto* parameter = std::get_if<ParameterStep>(&expression.step)) visit(*parameter);
  for (const Expression& input : expression.inputs) for_each_parameter(input, visit);
}

}  // namespace whence::derivation
