#include "annotator/read/exported/retrace/fx_graph.h"

#include <algorithm>

#include "annotator/merge/fx_line.h"

namespace whence {
namespace {

template <class Visit>
void each_argument(const FxNode& node, Visit visit) {
  for (const std::string& argument : node.positional) each_reference(argument, visit);
  for (const auto& [name, argument] : node.keywords) each_reference(argument, visit);
}

bool of_python(std::string_view target) { return target.starts_with("operator.") || target.starts_with("torch."); }

// "view" of "aten.view.default", "mul" of "operator.mul": what torch.fx names a node by.
std::string name_base(std::string_view target) {
  if (const std::size_t end = target.rfind('.'); !of_python(target) && target.find('.') != end)
    target = target.substr(0, end);
  std::string base(target.substr(target.rfind('.') + 1));
  while (base.starts_with("__") && base.size() > 4) base = base.substr(2, base.size() - 4);
  return base;
}

}  // namespace

std::string without_marks(std::string_view text) {
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == '\x01' || c == '\x02'; });
  return plain;
}

std::string reference_to(FxId node) { return '\x01' + std::to_string(node) + '\x02'; }

void FxGraph::reserve(std::size_t more) {
  nodes_.reserve(nodes_.size() + more);
  names_.reserve(more);
}

FxId FxGraph::placeholder(std::string name) {
  FxNode& node = nodes_.emplace_back();
  node.name = std::move(name);
  return size() - 1;
}

FxId FxGraph::unnamed(FxNode node) {
  nodes_.push_back(std::move(node));
  return size() - 1;
}

FxId FxGraph::call(FxNode node) {
  std::string base = name_base(node.target);
  return call(std::move(node), std::move(base));
}

FxId FxGraph::call(FxNode node, std::string base) {
  node.name = names_.create(std::move(base));
  return unnamed(std::move(node));
}

// A node reads only nodes before it.
void FxGraph::drop_unread() {
  for (const FxId node : results_) at(node).alive = true;
  for (FxId id = size(); id-- > 0;) {
    FxNode& node = at(id);
    node.alive = node.alive || node.check;
    if (node.alive) each_argument(node, [&](FxId read) { at(read).alive = true; });
  }
}

// A node that reads a value twice is one user; so is the one that returns the graph's results.
void FxGraph::count_users() {
  std::vector<FxId> read;
  const auto count = [&] {
    std::ranges::sort(read);
    const auto repeated = std::ranges::unique(read);
    read.erase(repeated.begin(), repeated.end());
    for (const FxId node : read) ++at(node).users;
    read.clear();
  };
  for (FxNode& node : nodes_) node.users = 0;
  for (const FxNode& node : nodes_) {
    if (!node.alive || node.check) continue;
    each_argument(node, [&](FxId id) { read.push_back(id); });
    count();
  }
  read = results_;
  count();
}

std::string FxGraph::printed(std::string_view argument) const {
  return with_references(argument, [&](FxId node) { return "%" + at(node).name; });
}

std::string FxGraph::text(FxId id) const {
  const FxNode& node = at(id);
  FxLine line;
  for (const std::string& argument : node.positional) line.positional(printed(argument));
  for (const auto& [name, argument] : node.keywords) line.keyword(name, printed(argument));
  return line.text(node.name, node.users, (of_python(node.target) ? "" : "torch.ops.") + node.target);
}

}  // namespace whence
