#include "annotator/read/exported/node_texts.h"

#include <algorithm>

#include "annotator/merge/python_text.h"
#include "annotator/read/exported/tensors.h"
#include "schema/dtype.h"

namespace whence {
namespace {

constexpr std::int64_t keyword = 2;  // torch._export.serde.schema.ArgumentKind

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ", ";
  list += item;
}

template <class Format>
std::string list_of(const Part& list, Format format) {
  std::string items;
  for (std::size_t i = 0; i < list.size(); ++i) append(items, format(list[i]));
  return "[" + items + "]";
}

std::string device_text(const Part& device) {
  std::string text = device.at("type").text();
  if (const Part index = device.at("index"); !index.is_null()) text += ":" + std::to_string(index.integer());
  return text;
}

std::string complex_text(double real, double imaginary) {
  const auto short_float = [](double number) {  // 2j, not 2.0j
    std::string text = python_float(number);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  if (real == 0) return short_float(imaginary) + "j";
  return "(" + short_float(real) + (imaginary < 0 ? "" : "+") + short_float(imaginary) + "j)";
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
    const auto kind = inputs[i].maybe("kind");
    if (kind && !kind->is_null() && kind->integer() == keyword) {
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
  const auto [kind, content] = given.alternative();
  if (kind == "as_name") {
    read.push_back(content.view());
    return "%" + content.text();
  }
  const auto named = [&](const Part& part) {
    read.push_back(part.at("name").view());
    return "%" + part.at("name").text();
  };
  const auto integer = [](const Part& part) { return std::to_string(part.integer()); };
  const auto real = [](const Part& part) { return python_float(part.number()); };
  const auto flag = [](const Part& part) { return std::string(part.flag() ? "True" : "False"); };
  const auto text = [](const Part& part) { return part.text(); };
  const auto nested = [&](const Part& part) { return argument(part, read); };
  if (kind == "as_none") return "None";
  if (kind == "as_tensor" || kind == "as_graph" || kind == "as_custom_obj") return named(content);
  if (kind == "as_tensors") return list_of(content, named);
  if (kind == "as_int") return integer(content);
  if (kind == "as_float") return real(content);
  if (kind == "as_bool") return flag(content);
  if (kind == "as_string") return content.text();
  if (kind == "as_operator") return content.text().substr(content.text().find('.', 6) + 1);  // after "torch.ops."
  if (kind == "as_ints") return list_of(content, integer);
  if (kind == "as_floats") return list_of(content, real);
  if (kind == "as_bools") return list_of(content, flag);
  if (kind == "as_strings") return list_of(content, text);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" || kind == "as_optional_tensor") {
    return nested(content);
  }
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools" || kind == "as_optional_tensors") {
    return list_of(content, nested);
  }
  if (kind == "as_int_lists") return list_of(content, [&](const Part& part) { return list_of(part, integer); });
  if (kind == "as_float_lists") return list_of(content, [&](const Part& part) { return list_of(part, real); });
  if (kind == "as_nested_tensors") return list_of(content, [&](const Part& part) { return list_of(part, named); });
  if (kind == "as_device") return device_text(content);
  if (kind == "as_scalar_type") return "torch." + std::string(name_of(exported_dtype(content.integer())));
  if (kind == "as_layout") return "torch." + exported_layout(content.integer());
  if (kind == "as_memory_format") return "torch." + exported_memory_format(content.integer());
  if (kind == "as_complex") return complex_text(content.at("real").number(), content.at("imag").number());
  return std::string(kind);  // what nothing here reads: the reader of operations says so
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
