// What is written to a tensor, or to a view of it, as ATen's functionalisation traces it: the write becomes a new
// value; where another view of the same storage is read next, what was written is put into the storage's value
// (select_scatter), and the view is made again of that.
#include <algorithm>
#include <utility>

#include "annotator/read/exported/operands.h"
#include "annotator/read/exported/retrace/retrace.h"
#include "annotator/read/exported/retrace/rules.h"

namespace whence {

Retrace::AliasId Retrace::fresh(FxId node) {
  storages_.push_back({node, 0, {}});
  aliases_.push_back({node, static_cast<std::int32_t>(storages_.size()) - 1, -1, 0});
  return static_cast<AliasId>(aliases_.size()) - 1;
}

FxId Retrace::use(std::string_view value) {
  const auto found = values_.find(value);
  return found == values_.end() ? -1 : sync(aliases_[found->second]);
}

FxId Retrace::sync(Alias& alias) {
  Storage& storage = storages_[alias.storage];
  if (alias.generation == storage.generation || graph_.size() > most_nodes_) return alias.node;
  for (const Update& update : std::exchange(storage.pending, {})) storage.base = write(update, storage.base);
  alias.node = forward(alias.view, storage.base);
  alias.generation = storage.generation;
  return alias.node;
}

// What the operator made is what its first argument holds from now on, and what it returns. A view is made again of
// what is written to.
void Retrace::write_back(const FxCall& call) {
  const auto found = call.given.empty() ? values_.end() : values_.find(call.given.front().value);
  if (found == values_.end() || made_.empty()) return;
  const Alias result = aliases_[made_.front()];
  const FxId made = result.node;
  Alias& written = aliases_[found->second];
  made_ = {found->second};
  if (written.node == made) return;
  if (result.storage == written.storage) {  // t_ and its like: the tensor is seen otherwise, and nothing is written
    written.node = made, written.view = result.view;
    return;
  }
  Storage& storage = storages_[written.storage];
  storage.pending.push_back({made, written.view});
  ++storage.generation;
  sync(written);
}

// A program that was decomposed returns what it writes. PyTorch writes it to the inputs again before it traces anew, at
// the end and in the order of the signature. Source: torch/export/_unlift.py (_insert_copy_for_mutations).
Retrace::Mutations Retrace::write_as_stated(const Part& signature) {
  const Part inputs = signature.at("input_specs"), outputs = signature.at("output_specs");
  FlatMap<std::string_view, std::string_view> input_of;  // by the name that a module gives it
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto [kind, content] = inputs[i].alternative();
    if (const auto state = content.maybe(kind == "buffer" ? "buffer_name" : "parameter_name")) {
      input_of.emplace(state->view(), content.at("arg").at("name").view());
    }
  }
  Mutations mutations;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (!kind.ends_with("_mutation")) continue;
    const bool of_user = kind == "user_input_mutation";
    const std::string_view target =
        content.at(of_user                     ? "user_input_name"
                   : kind == "buffer_mutation" ? "buffer_name"
                                               : "parameter_name")
            .view();
    const auto known = input_of.find(target);
    const std::string_view input = of_user ? target : known == input_of.end() ? std::string_view() : known->second;
    const std::string_view value = content.at("arg").at("name").view();
    assign(input, value);
    ++mutations.count;
    mutations.input_of.emplace(value, input);
  }
  return mutations;
}

void Retrace::assign(std::string_view input, std::string_view value) {
  const FxId held = use(input), written = use(value);
  if (held < 0 || written < 0) return;
  FxCall call;
  call.op = "aten.copy", call.overload = "default";
  call.given = {{"self", reference_to(held), input, false}, {"src", reference_to(written), value, false}};
  call.results = {input};
  call_ = &call;
  made_.clear();
  yield(emit_as_given(call));
  write_back(call);
}

// Buffers hold what was copied to them last, without the copy. Source: torch/export/exported_program.py
// (_remove_unnecessary_copy_op_pass).
void Retrace::forget_copies(const Part& signature) {
  const Part inputs = signature.at("input_specs");
  FlatMap<FxId, FxId> instead;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto [kind, content] = inputs[i].alternative();
    if (kind != "buffer") continue;
    const FxId held = use(content.at("arg").at("name").view());
    if (held < 0 || graph_.at(held).target != "aten.copy.default" || graph_.at(held).positional.size() != 2) continue;
    each_reference(graph_.at(held).positional.back(), [&](FxId copied) { instead.emplace(held, copied); });
  }
  if (!instead.empty()) replace(instead);
}

void Retrace::replace(const FlatMap<FxId, FxId>& nodes) {
  const auto kept = [&](FxId node) {
    const auto found = nodes.find(node);
    return found == nodes.end() ? node : found->second;
  };
  for (FxId node = 0; node < graph_.size(); ++node) graph_.replace_arguments(node, kept);
  for (Alias& alias : aliases_) alias.node = kept(alias.node);
  for (auto known = main_.begin(); known != main_.end(); ++known) known.value().main = kept(known->second.main);
  graph_.replace_results(kept);
}

std::vector<const Retrace::View*> Retrace::path_to(std::int32_t view) const {
  std::vector<const View*> path;
  for (; view >= 0; view = views_[view].parent) path.push_back(&views_[view]);
  std::ranges::reverse(path);
  return path;
}

FxId Retrace::again(const View& view, FxId of) {
  Arguments positional = view.rest;
  positional.insert(positional.begin(), reference_to(of));
  FxNode node = {view.target, std::move(positional), {}, graph_.at(of).dtype, graph_.at(of).rank};
  return graph_.call(std::move(node));
}

FxId Retrace::forward(std::int32_t view, FxId base) {
  for (const View* step : path_to(view)) {
    base = again(*step, base);
    for (int i = 0; i < step->new_sizes; ++i) graph_.skip("sym_size_int");
    remade_.emplace_back(step->maker, base);
  }
  return base;
}

FxId Retrace::write(const Update& update, FxId base) {
  const std::vector<const View*> path = path_to(update.view);
  std::vector<FxId> steps = {base};
  for (std::size_t i = 0; i + 1 < path.size(); ++i) steps.push_back(again(*path[i], steps.back()));
  FxId written = update.written;
  for (std::size_t i = path.size(); i-- > 0;) {
    const auto [target, arguments] =
        inverse_of_view({path[i]->target, path[i]->rest, reference_to(steps[i]), reference_to(written),
                         sizes_text(path[i]->viewed), facts(path[i]->viewed).rank()});
    if (target.empty()) continue;
    FxNode node = {target, arguments, {}, graph_.at(steps[i]).dtype, graph_.at(steps[i]).rank};
    written = graph_.call(std::move(node));
  }
  return written;
}

}  // namespace whence
