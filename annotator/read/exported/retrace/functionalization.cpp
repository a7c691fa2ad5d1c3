// What is written to a tensor, or to a view of it, as ATen's functionalisation traces it: the write becomes a new
// value; where another view of the same storage is read next, what was written is put into the storage's value
// (select_scatter), and the view is made again of that.
#include <algorithm>
#include <utility>

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
  const FxId made = aliases_[made_.front()].node;
  Alias& written = aliases_[found->second];
  made_ = {found->second};
  if (written.node == made) return;
  Storage& storage = storages_[written.storage];
  storage.pending.push_back({made, written.view});
  ++storage.generation;
  sync(written);
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
