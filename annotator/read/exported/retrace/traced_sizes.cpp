// What PyTorch computes of symbolic sizes while it traces: nobody reads it in the end, but it takes names.
// Source: torch/fx/experimental/proxy_tensor.py (__sym_dispatch__) of PyTorch 2.13, and what a trace of it shows.
#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "annotator/read/exported/retrace/retrace.h"
#include "annotator/read/exported/tensors.h"

namespace whence {
namespace {

// Which sizes of an operator's result are new symbols to PyTorch. What it takes over is the very object that the input
// has (proxy_tensor.py, track_tensor), so these are those that the operator's meta function computes: of an arange,
// which is also what a mask and a cumsum are made of (torch/_refs), of a shape's -1, of what is joined or repeated.
struct NewSizes {
  std::string_view op;
  enum Which : std::uint8_t { all, along, along_each, left_open } which;
};

constexpr auto new_sizes = std::to_array<NewSizes>({
    {"aten.arange", NewSizes::all},
    {"aten.cat", NewSizes::along},
    {"aten.cumprod", NewSizes::along},
    {"aten.cumsum", NewSizes::along},
    {"aten.index_select", NewSizes::along},
    {"aten.repeat", NewSizes::all},
    {"aten.roll", NewSizes::along_each},
    {"aten.slice", NewSizes::along},
    {"aten.tril", NewSizes::all},
    {"aten.triu", NewSizes::all},
    {"aten.view", NewSizes::left_open},
});

std::int64_t number_or_unknown(const Part& size) {
  const auto number = size.maybe("as_int");
  return number ? number->integer() : -1;
}

}  // namespace

bool Retrace::has_symbols(const Part& graph) {
  bool found = false;
  graph.at("tensor_values").entries([&](const std::string&, const Part& tensor) {
    const Part sizes = tensor.at("sizes");
    for (std::size_t i = 0; i < sizes.size() && !found; ++i) found = number_or_unknown(sizes[i]) < 0;
  });
  return found;
}

TensorFacts Retrace::facts(std::string_view value) const {
  TensorFacts facts;
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known) return facts;
  facts.dtype = exported_dtype(known->at("dtype").integer());
  const Part sizes = known->at("sizes");
  for (std::size_t i = 0; i < sizes.size(); ++i) facts.sizes.push_back(number_or_unknown(sizes[i]));
  return facts;
}

Layout Retrace::layout(std::string_view value) const {
  Layout layout;
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known) return layout;
  const Part sizes = known->at("sizes"), strides = known->at("strides");
  for (std::size_t i = 0; i < sizes.size(); ++i) layout.sizes.push_back(size_of_archive(sizes[i], size_text(sizes[i])));
  for (std::size_t i = 0; i < strides.size(); ++i) {
    layout.strides.push_back(size_of_archive(strides[i], size_text(strides[i])));
  }
  const Part offset = known->at("storage_offset");
  layout.offset = size_of_archive(offset, size_text(offset));
  return layout;
}

std::string Retrace::size_text(const Part& size) const {
  if (const auto number = size.maybe("as_int")) return std::to_string(number->integer());
  const std::string_view expression = size.at("as_expr").at("expr_str").view();
  const auto known = sizes_.find(expression);
  return known == sizes_.end() ? without_marks(expression) : reference_to(known->second);
}

std::string Retrace::sizes_text(std::string_view value) const {
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known) return "[]";
  const Part sizes = known->at("sizes");
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + size_text(sizes[i]);
  return "[" + text + "]";
}

// Sizes of the inputs: PyTorch asks for each once, and at the end once for each symbol, which is what is read.
void Retrace::name_sizes(const Part& inputs) {
  struct Size {
    std::string_view symbol, input;
    std::size_t axis;
  };
  std::vector<Size> symbols;
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto tensor = inputs[i].maybe("as_tensor");
    if (!tensor) continue;
    const std::string_view input = tensor->at("name").view();
    const auto known = archive_->at("tensor_values").maybe(input);
    if (!known) continue;
    const Part sizes = known->at("sizes");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (number_or_unknown(sizes[axis]) >= 0) continue;
      const std::string_view symbol = sizes[axis].at("as_expr").at("expr_str").view();
      graph_.skip("sym_size_int");
      if (seen.insert(symbol).second) symbols.push_back({symbol, input, axis});
    }
  }
  for (const Size& size : symbols) {
    FxNode node = {"aten.sym_size.int", {reference_to(use(size.input)), std::to_string(size.axis)}, {}};
    sizes_.emplace(size.symbol, asked_.emplace_back(graph_.unnamed(std::move(node))));
  }
}

// Sizes that PyTorch does not take over from an input of the operator, it asks for anew.
void Retrace::trace_new_sizes(const FxCall& call) {
  const auto known = std::ranges::find(new_sizes, call.op, &NewSizes::op);
  if (known == new_sizes.end() || call.results.empty()) return;
  const TensorFacts result = facts(call.results.front());
  const auto ask = [&](std::int64_t axis) {
    axis += axis < 0 ? result.rank() : 0;
    if (axis >= 0 && axis < result.rank() && result.sizes[axis] < 0) ask_size();
  };
  switch (known->which) {
    case NewSizes::along:
      return ask(call.integer("dim"));
    case NewSizes::along_each:
      std::ranges::for_each(call.integers("dims"), ask);
      return;
    case NewSizes::all:
      for (std::int64_t axis = 0; axis < result.rank(); ++axis) ask(axis);
      return;
    case NewSizes::left_open:
      return trace_open_size(call);
  }
}

// Of a view's shape with -1 in it.
void Retrace::trace_open_size(const FxCall& call) {
  const std::string shape = call.text("size");
  const std::size_t open = shape.find("-1");
  if (open == std::string::npos) return;
  const auto axis = std::count(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(open), ',');
  name_new_size(call.results.front(), static_cast<std::size_t>(axis), call.given.front().value);
}

void Retrace::name_new_size(std::string_view value, std::size_t axis, std::string_view reshaped) {
  const std::vector<TracedSize> sizes = layout(value).sizes, before = layout(reshaped).sizes;
  if (axis >= sizes.size() || sizes[axis].is_number()) return;
  const auto same = [](const TracedSize& a, const TracedSize& b) {
    return a.number == b.number && a.unknown == b.unknown;
  };
  if (!std::ranges::equal(sizes, before, same)) ask_size();
}

void Retrace::name_open_size(const TracedSize& size) {
  if (!size.is_number()) ask_size();
}

void Retrace::ask_size() {
  graph_.skip("sym_size_int");
  ++new_sizes_;
}

void Retrace::name_size(std::string_view value, std::size_t axis, TracedSize& size) {
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known || size.is_number() || axis >= known->at("sizes").size()) return;
  const auto expression = known->at("sizes")[axis].maybe("as_expr");
  if (!expression) return;
  const std::string_view key = expression->at("expr_str").view();
  each_reference(size.text, [&](FxId node) { sizes_.emplace(key, node); });
  const auto named = sizes_.find(key);
  if (named == sizes_.end()) return;
  arithmetic_.read_instead(std::exchange(size.text, reference_to(named->second)), reference_to(named->second));
}

// The symbol that a value of the archive is, or what sympy writes of it; empty for tensors.
std::string_view Retrace::expression_of(std::string_view value) const {
  const auto known = archive_->at("sym_int_values").maybe(value);
  const auto expression = known ? known->maybe("as_expr") : std::nullopt;
  return expression ? expression->at("expr_str").view() : std::string_view();
}

// PyTorch computes how large the storage of each result is, (1 + sum of (sizes[i] - 1) * strides[i]) * bytes, and
// traces what it computes of symbolic sizes. Nobody reads that, but it takes names. Multiplications by 1 are not
// traced. Source: c10's computeStorageNbytes; torch/fx/experimental/proxy_tensor.py (__sym_dispatch__).
void Retrace::trace_storage(std::string_view value) {
  if (dynamic_ && archive_->at("tensor_values").has(value)) trace_storage(layout(value), facts(value).dtype);
}

void Retrace::trace_storage(const Layout& layout, DType dtype) {
  if (!dynamic_ || !layout.known()) return;
  bool symbolic = false;
  for (std::size_t i = 0; i < layout.sizes.size(); ++i) {
    const TracedSize &size = layout.sizes[i], &stride = layout.strides[i];
    if (!size.is_number()) {
      graph_.skip("eq");
      graph_.skip("sub");
    }
    const bool by_symbol = !size.is_number() || !stride.is_number();
    if (by_symbol && !size.is(2) && !stride.is(1)) graph_.skip("mul");
    const bool nothing = size.is(1) || stride.is(0);  // no symbol any more
    symbolic = symbolic || (by_symbol && !nothing);
    if (symbolic) graph_.skip("add");
  }
  if (!symbolic && layout.offset.is_number()) return;
  graph_.skip("add");  // the offset
  if (size_of(dtype) != 1) graph_.skip("mul");
  if (!layout.offset.is_number()) graph_.skip("ge");
}

Retrace::Asked& Retrace::asked_of(std::string_view value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return asked_of_[found->second];
  return asked_of_[-1] = {};
}

TracedSize Retrace::element_count(std::string_view value) {
  Asked& asked = asked_of(value);
  if (!asked.count) asked.count = arithmetic_.element_count(layout(value).sizes);
  return *asked.count;
}

bool Retrace::contiguous(std::string_view value) {
  const TracedSize count = element_count(value);
  Asked& asked = asked_of(value);
  if (!asked.contiguous) asked.contiguous = arithmetic_.contiguous(layout(value), count);
  return *asked.contiguous;
}

std::string Retrace::emit_contiguous(std::string_view value) {
  const FxId node = use(value);
  last_ = add("aten.clone.default", {node >= 0 ? reference_to(node) : "None"},
              {{"memory_format", "torch.contiguous_format"}}, DType::undefined);
  describe(graph_.at(last_), value);
  Layout copied = layout(value);
  copied.pack();
  trace_storage(copied, facts(value).dtype);
  return reference_to(last_);
}

std::string Retrace::emit_arange(const TracedSize& length, DType dtype) {
  name_open_size(length);
  const std::string name = "torch." + std::string(name_of(dtype));
  return emit_of({}, "aten.arange.default", {length.text},
                 {{"dtype", name}, {"device", "cpu"}, {"pin_memory", "False"}}, dtype);
}

// PyTorch works out the strides of the result once more, from those of the copy.
std::string Retrace::emit_unsafe_view(std::string_view value, const std::vector<TracedSize>& shape) {
  std::string node = emit("aten._unsafe_view.default", {emit_contiguous(value), text_of(shape)});
  Layout copied = layout(value);
  copied.pack();
  std::vector<TracedSize> same = shape;
  arithmetic_.infer(same, arithmetic_.element_count(copied.sizes));
  arithmetic_.viewable(copied, same);
  return node;
}

// Before it makes a writing operator functional, PyTorch runs it on tensors without data: one is made for each
// argument, and arithmetic checks that the other argument has the shape of the first, or can be spread to it.
// Source: torchgen's gen_functionalization_type.py (to_meta); torch/_meta_registrations.py (meta_binop_inplace).
void Retrace::trace_write(const FxCall& call) {
  const bool arithmetic = call.op == "aten.add" || call.op == "aten.sub" || call.op == "aten.mul" ||
                          call.op == "aten.div" || call.op == "aten.floor_divide" || call.op == "aten.remainder" ||
                          call.op == "aten.masked_fill";
  std::vector<Layout> tensors;
  for (const FxCall::Given& given : call.given) {
    if (given.value.empty() || !archive_->at("tensor_values").has(given.value)) continue;
    Layout meta = layout(given.value);
    for (const TracedSize& size : meta.sizes) {
      if (!size.is_number()) graph_.skip("ge");
    }
    meta.offset = number(0);
    trace_storage(meta, facts(given.value).dtype);
    tensors.push_back(std::move(meta));
  }
  if (arithmetic && tensors.size() == 2) arithmetic_.broadcast_to(tensors[0].sizes, tensors[1].sizes);
}

// What PyTorch checks of the inputs' sizes when it runs an archive: that sizes of one symbol are equal, the ranges of
// symbols, and what the archive says itself. Source: torch/export/_unlift.py (_get_input_guards_for_graph).
void Retrace::trace_guards(const Part& inputs, const Part& program) {
  const auto ranges = program.maybe("range_constraints");
  std::unordered_set<std::string_view> seen;
  const auto check = [&](const Part& size) {
    const auto symbol = size.maybe("as_expr");
    const std::string_view expression = symbol ? symbol->at("expr_str").view() : std::string_view();
    constexpr std::string_view begin = "Symbol('";
    if (!ranges || !expression.starts_with(begin)) return;
    const std::string_view name = expression.substr(begin.size());
    const auto range = ranges->maybe(name.substr(0, name.find('\'')));
    if (!range) return;
    if (!seen.insert(expression).second) return graph_.skip("eq");
    const auto least = range->maybe("min_val"), most = range->maybe("max_val");
    if (least && !least->is_null() && least->integer() > 2) graph_.skip("ge");
    if (most && !most->is_null()) graph_.skip("le");
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto tensor = inputs[i].maybe("as_tensor");
    const auto known = tensor ? archive_->at("tensor_values").maybe(tensor->at("name").view()) : std::nullopt;
    if (!known) continue;
    const Part sizes = known->at("sizes");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) check(sizes[axis]);
  }
  const auto guards = program.maybe("guards_code");
  if (!guards || guards->is_null()) return;
  for (std::size_t i = 0; i < guards->size(); ++i) trace_expression((*guards)[i].view());
}

// Of Python's text "L['x'].size()[0] * 2 == L['y'].size()[0]": each operation on sizes.
void Retrace::trace_expression(std::string_view code) {
  constexpr std::pair<std::string_view, const char*> operators[] = {
      {"**", "pow"}, {"//", "floordiv"}, {"==", "eq"}, {"!=", "ne"}, {"<=", "le"}, {">=", "ge"},
      {"*", "mul"},  {"%", "mod"},       {"+", "add"}, {"<", "lt"},  {">", "gt"},  {" - ", "sub"}};
  std::size_t depth = 0;  // of brackets: which input, which axis
  for (std::size_t at = 0; at < code.size();) {
    depth += code[at] == '[';
    depth -= code[at] == ']' && depth > 0;
    const auto found =
        std::ranges::find_if(operators, [&](const auto& each) { return code.substr(at).starts_with(each.first); });
    if (depth > 0 || found == std::end(operators)) {
      ++at;
      continue;
    }
    graph_.skip(found->second);
    at += found->first.size();
  }
}

}  // namespace whence
