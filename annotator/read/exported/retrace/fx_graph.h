// FxGraph: an fx graph as torch.fx prints it, made node by node: names in the order of creation, nodes that nobody
// reads left out, users counted at the end. Source: torch/fx/node.py (Node.format_node), torch/fx/graph.py of
// PyTorch 2.13.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/merge/fx_namespace.h"
#include "schema/dtype.h"

namespace whence {

using FxId = std::int32_t;  // of a node in its graph

struct FxNode {
  std::string target;                   // "aten.view.default", "operator.getitem"
  std::vector<std::string> positional;  // arguments as they are printed, nodes in them as reference_to() writes them
  std::vector<std::pair<std::string, std::string>> keywords;
  DType dtype = DType::undefined;  // of the result, where that is a tensor
  int rank = -1;
  bool check = false;  // keeps what it reads, and is taken out afterwards
  bool alive = false;
  std::string name = {};
  std::int32_t users = 0;
};

// A node within the text of an argument. Its name is put there when the text is printed.
std::string reference_to(FxId node);
// What an archive says, without the characters that mark a reference.
std::string without_marks(std::string_view text);
// The node whose reference begins at `at`, which goes on to the reference's last character.
inline FxId read_reference(std::string_view text, std::size_t& at) {
  FxId node = 0;
  while (text[++at] != '\x02') node = node * 10 + (text[at] - '0');
  return node;
}
// Visits the nodes in an argument's text.
template <class Visit>
void each_reference(std::string_view text, Visit visit) {
  for (std::size_t at = text.find('\x01'); at != std::string_view::npos; at = text.find('\x01', at + 1)) {
    visit(read_reference(text, at));
  }
}

// The text with `written(node)` in the place of each reference.
template <class Written>
std::string with_references(std::string_view text, Written written) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x01') {
      result += written(read_reference(text, at));
    } else {
      result += text[at];
    }
  }
  return result;
}

class FxGraph {
 public:
  void reserve(std::size_t more);
  FxId placeholder(std::string name);
  // A call named after its target, or `base`, with the next number that is free.
  FxId call(FxNode node);
  FxId call(FxNode node, std::string base);
  FxId unnamed(FxNode node);  // a call that is given its name later
  void give_name(FxId node, std::string base) { at(node).name = names_.create(std::move(base)); }
  void skip(std::string base) { names_.create(std::move(base)); }  // a call that nobody reads
  void result(FxId node) { results_.push_back(node); }
  template <class Kept>
  void replace_results(Kept kept) {
    for (FxId& node : results_) node = kept(node);
  }
  // What a node reads.
  template <class Kept>
  void replace_arguments(FxId node, Kept kept) {
    const auto renew = [&](std::string& text) {
      text = with_references(text, [&](FxId read) { return reference_to(kept(read)); });
    };
    for (std::string& text : at(node).positional) renew(text);
    for (auto& [name, text] : at(node).keywords) renew(text);
  }

  void drop_unread();  // marks what is alive
  void count_users();

  FxNode& at(FxId node) { return nodes_[static_cast<std::size_t>(node)]; }
  const FxNode& at(FxId node) const { return nodes_[static_cast<std::size_t>(node)]; }
  FxId size() const { return static_cast<FxId>(nodes_.size()); }
  std::string text(FxId node) const;

 private:
  std::string printed(std::string_view argument) const;

  std::vector<FxNode> nodes_;
  std::vector<FxId> results_;
  FxNamespace names_;
};

}  // namespace whence
