// Compares traces at several sizes and replaces constants that are sizes by operations.
#include "recorder/native/dynamic_sizes.h"

#include <algorithm>
#include <cmath>

#include "recorder/base/live_mark.h"
#include "schema/fit.h"
#include "schema/result.h"
#include "schema/size_steps.h"

namespace whence::native {

using recorder::enclosing_mark;
using recorder::inferred_mark;

namespace jit = torch::jit;

namespace {

using Numbers = std::vector<std::int64_t>;  // by trace

jit::Value* arithmetic(jit::Graph& graph, const char* op, jit::Value* a, jit::Value* b) {
  jit::Value* result = graph.insert(c10::Symbol::fromQualString(op), {a, b});
  result->setType(c10::IntType::get());
  return result;
}

jit::Value* literal(jit::Graph& graph, std::int64_t number) { return graph.insertConstant(number); }

bool equal_constants(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() && b.isTensor()) {
    const at::Tensor &x = a.toTensor(), &y = b.toTensor();
    return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() && at::equal(x, y);
  }
  if (a.isDouble() && b.isDouble() && std::isnan(a.toDouble()) && std::isnan(b.toDouble())) return true;
  return a.type()->isSubtypeOf(*b.type()) && a == b;
}

class DynamicSizes {
 public:
  DynamicSizes(jit::Graph& graph, const std::vector<std::vector<Step>>& traces, const std::vector<TracedSize>& sizes,
               Symbols& symbols)
      : graph_(graph), traces_(traces), sizes_(sizes), symbols_(symbols), values_(sizes.size(), nullptr) {}

  std::vector<const Step*> run() {
    for (std::size_t i = 1; i < traces_.size(); ++i) {
      if (const auto at = first_difference(traces_[0], traces_[i])) refuse_other_program(*at, traces_[i]);
    }
    for (std::size_t i = 0; i < traces_[0].size(); ++i) {
      if (traces_[0][i].constant && differs(i)) replace(i);
    }
    if (!problems_.empty()) throw Error(std::move(problems_));
    return std::move(replaced_);
  }

 private:
  bool differs(std::size_t step) const {
    for (std::size_t i = 1; i < traces_.size(); ++i) {
      if (!equal_constants(*traces_[0][step].constant, *traces_[i][step].constant)) return true;
    }
    return false;
  }

  // Returns the source range of a node that whence inserts: the line of the operation that reads it, with a mark that
  // the module was inferred from that operation.
  static jit::SourceRange range_of(const Step& reader, ScopeBasis basis) {
    const auto source = reader.node->sourceRange().source();
    std::string text = source == nullptr ? "" : source->text_str().str();
    const bool around = text.ends_with(enclosing_mark);
    for (const std::string_view mark : {inferred_mark, enclosing_mark}) {
      if (text.ends_with(mark)) text.resize(text.size() - mark.size());
    }
    text += around || basis == ScopeBasis::enclosing ? enclosing_mark : inferred_mark;
    const std::size_t length = text.size();
    return jit::SourceRange(std::make_shared<jit::Source>(std::move(text)), 0, length);
  }

  // Returns the value of a size. It is computed once, at the beginning of the program, outside of the modules that use
  // it.
  jit::Value* size(std::size_t i, const Step& reader) {
    if (values_[i] == nullptr) {
      jit::WithInsertPoint guard(first_node());
      jit::Value* axis = literal(graph_, sizes_[i].axis);
      values_[i] =
          graph_.insert(c10::Symbol::fromQualString("aten::size"), {graph_.inputs()[sizes_[i].input + 1], axis});
      values_[i]->setType(c10::IntType::get());
      values_[i]->node()->setSourceRange(range_of(reader, ScopeBasis::enclosing));
    }
    return values_[i];
  }

  // Returns the first node that does not read an attribute of a module. Nodes that do must stay first.
  jit::Node* first_node() {
    for (jit::Node* node : graph_.nodes()) {
      if (node->kind() != jit::prim::TracedAttr) return node;
    }
    return graph_.return_node();
  }

  void replace(std::size_t step) {
    Numbers numbers;
    bool scalar_tensor = false, real = false, integral = true;
    for (const auto& trace : traces_) {
      const c10::IValue& constant = *trace[step].constant;
      if (constant.isInt()) {
        numbers.push_back(constant.toInt());
      } else if (constant.isDouble() && std::trunc(constant.toDouble()) == constant.toDouble() &&
                 std::abs(constant.toDouble()) < 1e15) {
        real = true;
        numbers.push_back(static_cast<std::int64_t>(constant.toDouble()));
      } else if (constant.isTensor() && constant.toTensor().dim() == 0 &&
                 constant.toTensor().scalar_type() == at::kLong) {
        scalar_tensor = true;
        numbers.push_back(constant.toTensor().item<std::int64_t>());
      } else {
        integral = false;
      }
    }
    const Step& reader = reader_of(traces_[0], step);
    std::vector<TracedSize> candidates = sizes_;
    std::vector<jit::Value*> tensors(sizes_.size());  // by candidate: the tensor that has the size; null for inputs
    const auto expression = integral ? fit(step, reader, numbers, candidates, tensors) : std::nullopt;
    if (!expression) return refuse(*traces_[0][step].constant, reader);
    jit::Node* node = traces_[0][step].node;
    for (std::size_t i = 0; i < sizes_.size(); ++i) size(i, reader);  // inserted before the nodes that read them
    const jit::Node* const before = node->prev();
    jit::WithInsertPoint guard(node);
    const SizeSteps<jit::Value*> steps{
        [&](SymbolId id) {
          const auto i = static_cast<std::size_t>(id.number());
          return i < sizes_.size() ? size(i, reader) : size_of(tensors[i], candidates[i].axis);
        },
        [&](std::int64_t number) { return literal(graph_, number); },
        [&](const char* op, jit::Value* a, jit::Value* b) { return arithmetic(graph_, op, a, b); }};
    jit::Value* value = *steps.number(*expression);
    if (real) {
      value = graph_.insert(c10::Symbol::fromQualString("aten::Float"), {value});
      value->setType(c10::FloatType::get());
    }
    if (scalar_tensor) {
      value = graph_.insert(c10::prim::NumToTensor, {value});
      value->setType(c10::TensorType::get());
    }
    for (jit::Node* inserted = node->prev(); inserted != before; inserted = inserted->prev()) {
      inserted->setSourceRange(range_of(reader, ScopeBasis::inferred));
    }
    node->output()->replaceAllUsesWith(value);
    if (std::find(replaced_.begin(), replaced_.end(), &reader) == replaced_.end()) replaced_.push_back(&reader);
  }

  // Returns an expression for the numbers of a constant. Tries the sizes of inputs, then sizes of earlier tensors,
  // which are added to `candidates`, then a division of an input's size by a stride.
  std::optional<Size> fit(std::size_t step, const Step& reader, const Numbers& numbers,
                          std::vector<TracedSize>& candidates, std::vector<jit::Value*>& tensors) const {
    constexpr std::int64_t longest_stride = 64;
    if (auto size = fit_size(numbers, seen(sizes_), 1)) return size;
    add_sizes_before(step, reader, numbers, candidates, tensors);
    const auto size = fit_size(numbers, seen(candidates), 1);
    return size ? size : fit_size(numbers, seen(sizes_), longest_stride);
  }

  static std::vector<SeenSize> seen(const std::vector<TracedSize>& sizes) {
    std::vector<SeenSize> all;
    for (const TracedSize& each : sizes) all.push_back({Size::symbol(SymbolId(all.size())), each.seen});
    return all;
  }

  // Inserts the size of a tensor of the trace.
  jit::Value* size_of(jit::Value* holder, std::int64_t axis) {
    jit::Value* size = graph_.insert(c10::Symbol::fromQualString("aten::size"), {holder, literal(graph_, axis)});
    size->setType(c10::IntType::get());
    return size;
  }

  // Adds sizes of tensors before a constant: all sizes of tensors that `reader` reads, because such a number is mostly
  // computed from them (the length of a windowed or strided axis is no simple function of the input's length), and the
  // nearest other size that equals the constant. Skips sizes that are equal in all traces.
  void add_sizes_before(std::size_t constant, const Step& reader, const Numbers& numbers,
                        std::vector<TracedSize>& candidates, std::vector<jit::Value*>& tensors) const {
    constexpr std::size_t max_distance = 200;  // steps
    const auto add = [&](std::size_t step, std::size_t output, bool only_equal) {
      const std::size_t rank = traces_[0][step].sizes[output].size();
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const std::optional<Numbers> seen = seen_size(step, output, axis);
        if (!seen || std::equal(seen->begin() + 1, seen->end(), seen->begin())) continue;
        if (only_equal && *seen != numbers) continue;
        candidates.push_back({"", 0, static_cast<std::int64_t>(axis), *seen});
        tensors.push_back(traces_[0][step].node->output(output));
        if (only_equal) return true;
      }
      return false;
    };
    const std::size_t first = constant > max_distance ? constant - max_distance : 0;
    bool found = false;
    for (std::size_t step = constant; step-- > first;) {
      for (std::size_t output = 0; output < traces_[0][step].outputs.size(); ++output) {
        const std::size_t value = traces_[0][step].outputs[output];
        const bool is_read = std::find(reader.inputs.begin(), reader.inputs.end(), value) != reader.inputs.end();
        if (is_read) {
          add(step, output, false);
        } else if (!found) {
          found = add(step, output, true);
        }
      }
    }
  }

  // Returns the size of an axis in each trace, or none if the tensor has fewer axes in one of them.
  std::optional<Numbers> seen_size(std::size_t step, std::size_t output, std::size_t axis) const {
    Numbers seen;
    for (const std::vector<Step>& trace : traces_) {
      const std::vector<std::int64_t>& sizes = trace[step].sizes[output];
      if (axis >= sizes.size()) return std::nullopt;
      seen.push_back(sizes[axis]);
    }
    return seen;
  }

  Place place(const Step& step) {
    return {.stage = "record",
            .module = step.module,
            .has_module = true,
            .op = step.kind,
            .source = source_of(step.stack, symbols_)};
  }

  void refuse(const c10::IValue& constant, const Step& reader) {
    std::ostringstream text;
    if (constant.isTensor()) {
      text << "a tensor of shape " << constant.toTensor().sizes();
    } else {
      text << "the number " << constant;
    }
    Diagnostic problem = {Code::baked_size,
                          Severity::error,
                          "forward computes " + text.str() + " from a size in a way that the trace does not record",
                          place(reader),
                          "compute it with tensor operations from the input (torch::full_like, x.numel() as a tensor), "
                          "or leave that axis out of dynamic_axes",
                          1,
                          {}};
    if (!reader.layer.empty()) {
      problem.message =
          reader.layer + " computes " + text.str() + " from a size in a way that the trace does not record";
      problem.remedy = remedy_in(reader);
    }
    if (problems_.empty() || problems_.back().message != problem.message || problems_.back().where != problem.where) {
      problems_.push_back(std::move(problem));
    }
  }

  // Returns the remedy for a size in LibTorch's own code, which the user cannot change.
  static std::string remedy_in(const Step& step) {
    return "leave that axis out of dynamic_axes, so that the file has the example's size, or replace '" + step.module +
           "' with a module of your own that takes sizes from its tensors: -1 in view(), torch::nn::functional for the "
           "computation";
  }

  [[noreturn]] void refuse_other_program(std::size_t at, const std::vector<Step>& other) {
    // A constant has no stack of its own.
    const Step& step = traces_[0][at].stack.empty() ? reader_of(traces_[0], at) : traces_[0][at];
    const std::string other_kind = at < other.size() ? other[at].kind : "nothing";
    throw Error(Code::baked_size,
                "forward performs different operations at different sizes: " + traces_[0][at].kind +
                    " at the example's size, " + other_kind + " at another; its control flow depends on a dynamic size",
                step.layer.empty() ? "write the branch with tensor operations, or leave that axis out of dynamic_axes"
                                   : remedy_in(step),
                place(step));
  }

  jit::Graph& graph_;
  const std::vector<std::vector<Step>>& traces_;
  const std::vector<TracedSize>& sizes_;
  Symbols& symbols_;
  std::vector<jit::Value*> values_;
  std::vector<const Step*> replaced_;
  Diagnostics problems_;
};

}  // namespace

std::vector<const Step*> make_dynamic(jit::Graph& graph, const std::vector<std::vector<Step>>& traces,
                                      const std::vector<TracedSize>& sizes, Symbols& symbols) {
  return DynamicSizes(graph, traces, sizes, symbols).run();
}

std::string source_of(const NativeStack& stack, Symbols& symbols) {
  for (const NativeFrame& frame : stack) {
    for (const Frame& line : symbols.at(frame.site)) {
      if (line.function.empty() || is_in_headers(line.function)) continue;
      return source_place(line);
    }
  }
  return "";
}

}  // namespace whence::native
