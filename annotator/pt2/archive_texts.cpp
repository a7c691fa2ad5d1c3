#include "annotator/pt2/archive_texts.h"

#include <algorithm>

#include "annotator/metadata/fx_line.h"
#include "annotator/pt2/argument_text.h"
#include "annotator/pt2/checks.h"
#include "annotator/pt2/operands.h"
#include "schema/sort_unique.h"

namespace whence::pt2 {

namespace {

// Returns the name that torch.fx prints for a function: operators unchanged, Python's own under "operator".
std::string printed_target(const std::string& target) {
  return target.starts_with("_operator.") ? target.substr(1) : target;
}

struct Results {
  std::vector<std::string_view> names;
  bool several = false;  // nodes of their own extract them, and these are the users
};

Results results_of(const Part& node) {
  Results results;
  const Part outputs = node.at("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (kind == "as_none") continue;
    if (kind == "as_tensors") {
      results.several = true;
      for (std::size_t each = 0; each < content.size(); ++each) {
        results.names.push_back(content[each].at("name").view());
      }
    } else if (const auto name = content.maybe(content.has("name") ? "name" : "as_name")) {
      results.names.push_back(name->view());
    }
  }
  results.several = results.several || results.names.size() > 1;
  return results;
}

metadata::FxLine line_of(const Part& node) {
  metadata::FxLine line;
  const Part inputs = node.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string value = argument_text(inputs[i].at("arg"), [](const Part& name) { return "%" + name.text(); });
    if (is_keyword(inputs[i])) {
      line.keyword(inputs[i].at("name").view(), value);
    } else {
      line.positional(value);
    }
  }
  return line;
}

}  // namespace

// A node that reads a value twice counts as one user.
void ArchiveTexts::count(Names& read) {
  sort_unique(read);
  for (const std::string_view name : read) ++readers_[name];
  read.clear();
}

// Checks compute nothing and are not users: exporters remove them first.
void ArchiveTexts::count_users() {
  Names read;
  const auto note = [&](const Part& name) { read.push_back(name.view()); };
  const Part nodes = graph_.at("nodes"), outputs = graph_.at("outputs");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_check(nodes[i].at("target").view())) continue;
    const Part inputs = nodes[i].at("inputs");
    for (std::size_t k = 0; k < inputs.size(); ++k) each_value(inputs[k].at("arg"), note);
    count(read);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) each_value(outputs[i], note);
  count(read);
  counted_ = true;
}

int ArchiveTexts::users_of(std::string_view value) const {
  const auto found = readers_.find(value);
  return found == readers_.end() ? 0 : found->second;
}

std::string ArchiveTexts::of(const Part& node) {
  if (!counted_) count_users();
  const Results results = results_of(node);
  std::string name;
  if (node.has("name") && !node.at("name").is_null()) {
    name = node.at("name").text();
  } else if (results.names.size() == 1) {
    name = results.names.front();
  }
  int users = 0;
  for (const std::string_view result : results.names) {
    users += results.several ? std::min(users_of(result), 1) : users_of(result);
  }
  return line_of(node).text(name, users, printed_target(node.at("target").text()));
}

}  // namespace whence::pt2
