#include "annotator/read/exported/node_texts.h"

#include <algorithm>

#include "annotator/read/exported/operands.h"
#include "annotator/read/exported/retrace/argument_text.h"

namespace whence {
namespace {

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ", ";
  list += item;
}

// As torch.fx names a function: operators as they are, Python's own under "operator".
std::string printed_target(const std::string& target) {
  return target.starts_with("_operator.") ? target.substr(1) : target;
}

}  // namespace

// A node that reads a value twice is one user.
void NodeTexts::count(Names& read) {
  std::ranges::sort(read);
  const auto repeated = std::ranges::unique(read);
  read.erase(repeated.begin(), repeated.end());
  for (const std::string_view name : read) ++users_[name];
}

void NodeTexts::add(const Part& node, bool computes) {
  Names read;
  texts_.push_back(text_of(node, read));
  if (computes) count(read);
}

void NodeTexts::add_outputs(const Part& outputs) {
  Names read;
  for (std::size_t i = 0; i < outputs.size(); ++i) argument(outputs[i], read);
  count(read);
}

NodeTexts::Text NodeTexts::text_of(const Part& node, Names& read) {
  Text text;
  const Part outputs = node.at("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, content] = outputs[i].alternative();
    if (kind == "as_none") continue;
    if (kind == "as_tensors") {
      text.several = true;
      for (std::size_t each = 0; each < content.size(); ++each) {
        text.outputs.push_back(content[each].at("name").text());
      }
    } else if (content.has("name")) {
      text.outputs.push_back(content.at("name").text());
    } else if (content.has("as_name")) {
      text.outputs.push_back(content.at("as_name").text());
    }
  }
  text.several = text.several || text.outputs.size() > 1;
  if (node.has("name") && !node.at("name").is_null()) {
    text.name = node.at("name").text();
  } else if (text.outputs.size() == 1) {
    text.name = text.outputs.front();
  }
  std::string positional, keywords;
  std::size_t given = 0;
  const Part inputs = node.at("inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string value = argument(inputs[i].at("arg"), read);
    if (is_keyword(inputs[i])) {
      append(keywords, inputs[i].at("name").text() + ": " + value);
    } else {
      append(positional, value);
      ++given;
    }
  }
  if (given == 1) positional += ",";  // a tuple of one
  text.call = "call_function[target=" + printed_target(node.at("target").text()) + "](args = (" + positional +
              "), kwargs = {" + keywords + "})";
  return text;
}

std::string NodeTexts::argument(const Part& given, Names& read) {
  return argument_text(given, [&](const Part& name) {
    read.push_back(name.view());
    return "%" + name.text();
  });
}

std::string NodeTexts::of(std::size_t node) const {
  const Text& text = texts_[node];
  int users = 0;
  for (const std::string& output : text.outputs) {
    const auto found = users_.find(output);
    const int readers = found == users_.end() ? 0 : found->second;
    users += text.several ? (readers > 0 ? 1 : 0) : readers;
  }
  return "%" + text.name + " : [num_users=" + std::to_string(users) + "] = " + text.call;
}

}  // namespace whence
