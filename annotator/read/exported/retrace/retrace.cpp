#include "annotator/read/exported/retrace/retrace.h"

#include <tuple>

#include "annotator/read/exported/checks.h"
#include "annotator/read/exported/operands.h"
#include "annotator/read/exported/retrace/argument_text.h"
#include "annotator/read/exported/retrace/rules.h"
#include "annotator/read/exported/retrace/type_promotion.h"
#include "annotator/read/exported/tensors.h"
#include "schema/written_views.h"

namespace whence {
namespace {

// "torch.ops.aten.add.Tensor" -> "aten.add", "Tensor"; "_operator.mul" -> "operator.mul".
std::pair<std::string, std::string> parts_of(std::string_view target) {
  constexpr std::string_view operators = "torch.ops.";
  if (target.starts_with("_operator.")) return {std::string(target.substr(1)), ""};
  if (!target.starts_with(operators)) return {std::string(target), ""};
  target.remove_prefix(operators.size());
  const std::size_t library = target.find('.'), overload = target.rfind('.');
  if (overload == library || library == std::string_view::npos) return {std::string(target), ""};
  return {std::string(target.substr(0, overload)), std::string(target.substr(overload + 1))};
}

std::string joined(const std::string& op, const std::string& overload) {
  return overload.empty() ? op : op + "." + overload;
}

// The last operands of a scan are a tuple; the archive holds lists only.
bool is_tuple(const FxCall& call, std::size_t argument) {
  return call.op == "higher_order.scan" && argument == 3 && call.given.back().text.starts_with('[');
}

FxId node_of(const std::string& reference) {
  FxId node = -1;
  each_reference(reference, [&](FxId id) { node = id; });
  return node;
}

}  // namespace

// ---- the graph ----------------------------------------------------------------------------------------------------

Retrace::Retrace(const Part& graph, Reading& reading, const Part* program) : reading_(reading) {
  archive_ = &graph;
  dynamic_ = has_symbols(graph);
  const Part inputs = graph.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto [kind, content] = inputs[i].alternative();
    const auto name = content.maybe(kind == "as_tensor" || kind == "as_custom_obj" ? "name" : "as_name");
    if (!name) continue;
    const FxId node = graph_.placeholder(name->text());
    describe(graph_.at(node), name->view());
    bind(name->view(), fresh(node));
    inputs_.push_back(name->view());
  }
  if (dynamic_) name_sizes(inputs);
  if (dynamic_ && program != nullptr) trace_guards(inputs, *program);
  trace(graph);
  if (program == nullptr) {
    return_results(graph, {});
  } else {
    const Part signature = program->at("graph_module").at("signature");
    return_results(graph, write_as_stated(signature));
    forget_copies(signature);
  }
  for (const FxId size : asked_) graph_.give_name(size, "sym_size_int");
  graph_.drop_unread();
  choose_among_alive();
  promote_types(graph_);
  graph_.count_users();
  archive_ = nullptr;
}

// The node that an operator is named by may be one whose result nobody reads.
void Retrace::choose_among_alive() {
  for (const auto& [maker, again] : remade_) {  // a view that was made again before anybody read it
    const auto made = main_.find(maker);
    if (made != main_.end() && !graph_.at(made->second.main).alive && graph_.at(again).alive)
      made.value() = {again, again};
  }
  for (auto made = main_.begin(); made != main_.end(); ++made) {
    FxId id = made->second.main;
    const auto computes = [&] {
      const FxNode& node = graph_.at(id);
      return node.alive && !node.check && node.target.starts_with("aten.");
    };
    if (graph_.at(id).alive) continue;
    while (id > made->second.first && !computes()) --id;
    if (computes()) made.value().main = id;
  }
}

// First what inputs hold in the end, then what the program returns; what is written to an input is that input.
void Retrace::return_results(const Part& graph, const Mutations& mutations) {
  for (const std::string_view input : inputs_) {
    if (storages_[aliases_[values_[input]].storage].generation > 0) graph_.result(use(input));
  }
  const Part outputs = graph.at("outputs");
  for (std::size_t i = mutations.count; i < outputs.size(); ++i) {
    each_value(outputs[i], [&](const Part& name) {
      const auto written = mutations.input_of.find(name.view());
      const auto input = written == mutations.input_of.end() ? values_.end() : values_.find(written->second);
      if (input != values_.end()) bind(name.view(), input->second);
      if (values_.contains(name.view())) graph_.result(use(name.view()));
    });
  }
}

std::string Retrace::text(const Part& node) const {
  const auto found = main_.find(node.identity());
  return found == main_.end() ? "" : graph_.text(found->second.main);
}

const std::string* Retrace::name(std::string_view value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? nullptr : &graph_.at(aliases_[found->second].node).name;
}

std::vector<std::pair<std::string_view, std::string>> Retrace::written() const {
  std::vector<std::pair<std::string_view, std::string>> found;
  for (const std::string_view input : inputs_) {
    const Alias& alias = aliases_[values_.at(input)];
    if (storages_[alias.storage].generation > 0) found.emplace_back(input, graph_.at(alias.node).name);
  }
  return found;
}

void Retrace::reserve(std::size_t more) {
  graph_.reserve(more);
  values_.reserve(values_.size() + more);
  aliases_.reserve(aliases_.size() + more);
  storages_.reserve(storages_.size() + more);
  main_.reserve(main_.size() + more);
}

void Retrace::trace(const Part& graph) {
  const Part* const around = std::exchange(archive_, &graph);
  const Part nodes = graph.at("nodes");
  reserve(nodes.size());
  most_nodes_ += 20 * static_cast<FxId>(nodes.size()) + 10000;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    enter_node(reading_, i, nodes[i]);
    run(nodes[i]);
  }
  archive_ = around;
}

void Retrace::run(const Part& node) {
  if (const auto own = operands_of_context(node.at("target").view())) return run_inline(node, *own);
  maker_ = node.identity();
  FxCall call = read(node);
  call_ = &call;
  const FxId before = graph_.size();
  made_.clear();
  last_ = -1;
  new_sizes_ = 0;
  if (is_check(node.at("target").view())) {
    emit_as_given(call);
    graph_.at(last_).check = true;
    return;
  }
  const std::string_view size = call.results.size() == 1 ? expression_of(call.results.front()) : std::string_view();
  if (const auto known = sizes_.find(size); !size.empty() && known != sizes_.end()) {
    constexpr std::string_view computed = "operator.";
    if (call.op.starts_with(computed)) graph_.skip(call.op.substr(computed.size()));  // once more
    bind(call.results.front(), fresh(known->second));
    main_[maker_] = {known->second, known->second};
    return;
  }
  call.in_place = is_in_place_name(call.op);
  if (call.in_place) call.op.pop_back();
  if (call.in_place && call.op == "aten.transpose") call.overload = "int";  // other overloads are called alike
  call.op = plain_name(std::move(call.op));
  if (dynamic_) trace_new_sizes(call);
  if (dynamic_ && call.in_place) trace_write(call);
  if (!apply_rule(*this, call)) stay(call);
  if (last_ >= 0) main_[maker_] = {before, last_};
  if (!size.empty() && last_ >= 0) {
    sizes_.emplace(size, last_);
    arithmetic_.remember(last_);
  }
  if (call.in_place) write_back(call);
  for (std::size_t i = 0; i < made_.size() && i < call.results.size(); ++i) bind(call.results[i], made_[i]);
}

// A graph that is run in a context, such as no_grad, which ONNX has no need of.
void Retrace::run_inline(const Part& node, std::size_t own) {
  const Operands operands = operands_of(node);
  if (operands.graphs.size() != 1 || operands.others.size() < own) return;  // the reader of operations says so
  const Part& inner = operands.graphs.front();
  std::vector<AliasId> given;
  for (std::size_t i = own; i < operands.others.size(); ++i) {
    each_value(operands.others[i], [&](const Part& name) {
      const auto found = values_.find(name.view());
      given.push_back(found == values_.end() ? fresh(graph_.placeholder(name.text())) : found->second);
    });
  }
  auto around = std::exchange(values_, {});
  const Part inputs = inner.at("inputs");
  for (std::size_t i = 0; i < inputs.size() && i < given.size(); ++i) {
    each_value(inputs[i], [&](const Part& name) { bind(name.view(), given[i]); });
  }
  trace(inner);
  std::vector<AliasId> made;
  const Part outputs = inner.at("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    each_value(outputs[i], [&](const Part& name) {
      if (const auto found = values_.find(name.view()); found != values_.end()) made.push_back(found->second);
    });
  }
  std::swap(values_, around);
  const Part results = node.at("outputs");
  std::size_t next = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    each_value(results[i], [&](const Part& name) {
      if (next < made.size()) bind(name.view(), made[next++]);
    });
  }
}

FxCall Retrace::read(const Part& node) {
  FxCall call;
  std::tie(call.op, call.overload) = parts_of(node.at("target").view());
  const auto named = [&](const Part& name) {
    const FxId node = use(name.view());
    return node >= 0 ? reference_to(node) : "%" + without_marks(name.view());
  };
  const Part inputs = node.at("inputs");
  call.given.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Part argument = inputs[i].at("arg");
    FxCall::Given& given = call.given.emplace_back();
    given.name = inputs[i].at("name").view();
    given.text = argument_text(argument, named);
    if (is_tuple(call, i)) given.text = "(" + given.text.substr(1, given.text.size() - 2) + ")";
    if (const auto tensor = argument.maybe("as_tensor")) given.value = tensor->at("name").view();
    if (const auto tensors = argument.maybe("as_tensors")) {
      for (std::size_t each = 0; each < tensors->size(); ++each)
        given.values.push_back((*tensors)[each].at("name").view());
    }
    given.keyword = is_keyword(inputs[i]);
  }
  const Part outputs = node.at("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    call.several = call.several || kind == "as_tensors";
    if (kind == "as_none") {
      call.results.emplace_back();
    } else if (kind == "as_tensors") {
      for (std::size_t each = 0; each < content.size(); ++each) call.results.push_back(content[each].at("name").view());
    } else if (const auto name = content.maybe(content.has("name") ? "name" : "as_name")) {
      call.results.push_back(name->view());
    }
  }
  // Operators that take graphs return a tuple, also of one.
  call.several = call.several || call.results.size() > 1 || call.op.starts_with("higher_order.");
  return call;
}

// ---- what rules say -----------------------------------------------------------------------------------------------

FxId Retrace::add(std::string target, Arguments positional, Keywords keywords, DType dtype) {
  FxNode node;
  if (!call_->results.empty()) describe(node, call_->results.front());
  if (dtype != DType::undefined) node.dtype = dtype;
  node.target = std::move(target);
  node.positional = std::move(positional);
  node.keywords = std::move(keywords);
  return graph_.call(std::move(node));
}

std::string Retrace::emit(std::string target, Arguments positional, Keywords keywords, DType dtype) {
  if (call_->several || call_->results.empty()) {
    last_ = add(std::move(target), std::move(positional), std::move(keywords), dtype);
    return reference_to(last_);
  }
  const Layout as_result = dynamic_ ? layout(call_->results.front()) : Layout();
  return emit_of(as_result, std::move(target), std::move(positional), std::move(keywords), dtype);
}

std::string Retrace::emit_of(const Layout& layout, std::string target, Arguments positional, Keywords keywords,
                             DType dtype) {
  last_ = add(std::move(target), std::move(positional), std::move(keywords), dtype);
  FxNode& node = graph_.at(last_);
  if (!layout.sizes.empty()) node.rank = static_cast<int>(layout.sizes.size());
  trace_storage(layout, node.dtype);
  return reference_to(last_);
}

std::string Retrace::emit_as_given(const FxCall& call) {
  Arguments positional;
  Keywords keywords;
  for (const FxCall::Given& given : call.given) {
    given.keyword ? (void)keywords.emplace_back(given.name, given.text) : positional.push_back(given.text);
  }
  return emit(joined(call.op, call.overload), std::move(positional), std::move(keywords));
}

void Retrace::stay(const FxCall& call) {
  const std::string node = emit_as_given(call);
  if (call.several) return yield(items(node, call.results.size()));
  if (!is_view(call.op) || call.given.empty() || call.given.front().value.empty()) return yield(node);
  Arguments rest;
  for (std::size_t i = 1; i < call.given.size(); ++i) rest.push_back(call.given[i].text);
  view_of(call.given.front().value, node, joined(call.op, call.overload), std::move(rest));
}

// The operator itself is what its results are named by.
std::vector<std::string> Retrace::items(const std::string& node, std::size_t count) {
  std::vector<std::string> taken;
  for (std::size_t i = 0; i < count; ++i) {
    const FxId item = add("operator.getitem", {node, std::to_string(i)}, {}, DType::undefined);
    taken.push_back(reference_to(item));
    if (i >= call_->results.size()) continue;
    describe(graph_.at(item), call_->results[i]);
    if (call_->several) trace_storage(call_->results[i]);
  }
  return taken;
}

void Retrace::check(const std::string& node) {
  emit_of({}, "aten._assert_async.default", {node});
  graph_.at(last_).check = true;
}

void Retrace::yield(const std::string& node) { made_.push_back(fresh(node_of(node))); }

void Retrace::yield(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) yield(node);
}

void Retrace::yield_same(std::string_view value) {
  if (const auto found = values_.find(value); found != values_.end()) made_.push_back(found->second);
}

void Retrace::read_from(std::string_view value, const std::string& node) {
  if (const auto found = values_.find(value); found != values_.end()) aliases_[found->second].node = node_of(node);
}

void Retrace::yield_view(std::string_view value, std::string target, Arguments rest) {
  const FxId viewed = use(value);
  Arguments positional = rest;
  positional.insert(positional.begin(), viewed >= 0 ? reference_to(viewed) : "None");
  const std::string node = emit(target, std::move(positional));
  view_of(value, node, std::move(target), std::move(rest));
}

void Retrace::view_of(std::string_view value, const std::string& node, std::string target, Arguments rest) {
  const auto found = values_.find(value);
  if (found == values_.end()) return yield(node);
  const Alias viewed = aliases_[found->second];
  views_.push_back({viewed.view, std::move(target), std::move(rest), std::string(value), maker_, new_sizes_});
  // PyTorch's new views are of generation 0, so one of a storage that was written to is made again where it is read.
  made_.push_back(static_cast<AliasId>(aliases_.size()));
  aliases_.push_back({node_of(node), viewed.storage, static_cast<std::int32_t>(views_.size()) - 1, 0});
}

void Retrace::describe(FxNode& node, std::string_view value) const {
  const auto known = archive_->at("tensor_values").maybe(value);
  const auto numbers = archive_->maybe("sym_float_values");
  if (!known && numbers && numbers->has(value)) node.dtype = DType::float32;
  if (!known) return;
  node.dtype = exported_dtype(known->at("dtype").integer());
  node.rank = static_cast<int>(known->at("sizes").size());
}

}  // namespace whence
