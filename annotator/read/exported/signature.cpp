#include "annotator/read/exported/signature.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whence {
namespace {

// "buffer_mutation" is BUFFER_MUTATION; two kinds have other names in an archive.
std::string kind_of(std::string_view alternative) {
  if (alternative == "constant_input") return "USER_INPUT";
  if (alternative == "tensor_constant") return "CONSTANT_TENSOR";
  std::string kind(alternative);
  for (char& c : kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return kind;
}

// {"name": "x"}, {"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "s"}}; empty for constants.
std::string name_of_argument(const Part& argument) {
  for (const char* key : {"name", "as_name"}) {
    if (argument.has(key)) return argument.at(key).text();
  }
  for (const char* key : {"as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_custom_obj"}) {
    if (argument.has(key)) return name_of_argument(argument.at(key));
  }
  return "";
}

SignatureEntry entry_of(const Part& spec) {
  constexpr std::array targets = {"parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name",
                                  "user_input_name"};
  const auto [kind, content] = spec.alternative();
  SignatureEntry entry;
  entry.kind = kind_of(kind);
  entry.name = name_of_argument(content.has("arg") ? content.at("arg") : content);
  for (const char* key : targets) {
    if (content.has(key)) entry.target = content.at(key).text();
  }
  if (kind == "buffer") entry.persistent = content.at("persistent").flag();
  return entry;
}

std::vector<SignatureEntry> entries_of(const Part& specs) {
  std::vector<SignatureEntry> entries;
  for (std::size_t i = 0; i < specs.size(); ++i) entries.push_back(entry_of(specs[i]));
  return entries;
}

// A module of a tree that is built from the names of what modules own.
struct Owner {
  std::vector<SignatureEntry> own;  // buffers and constants
  std::vector<std::pair<std::string, std::unique_ptr<Owner>>> inner;

  Owner& at(std::string_view path) {  // of "encoder.layer.0.weight": the module encoder.layer.0
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) return *this;
    const std::string_view name = path.substr(0, dot);
    auto found = std::ranges::find(inner, name, [](const auto& module) { return std::string_view(module.first); });
    if (found == inner.end()) found = inner.emplace(inner.end(), std::string(name), std::make_unique<Owner>());
    return found->second->at(path.substr(dot + 1));
  }
  void append_to(std::vector<SignatureEntry>& entries) const {
    entries.insert(entries.end(), own.begin(), own.end());
    for (const auto& [name, module] : inner) module->append_to(entries);
  }
};

// PyTorch takes the program for a module before it decomposes it. Constants are that module's buffers then, and buffers
// are listed module after module, an outer one's before those of the modules in it.
void list_constants_as_buffers(std::vector<SignatureEntry>& inputs) {
  const auto is_state = [](const SignatureEntry& entry) {
    return entry.target && (entry.kind == "BUFFER" || entry.kind == "CONSTANT_TENSOR");
  };
  if (std::ranges::find(inputs, "CONSTANT_TENSOR", &SignatureEntry::kind) == inputs.end()) return;
  const auto deep = [](const SignatureEntry& entry) {
    return entry.target && std::ranges::count(*entry.target, '.') > 200;  // nobody's modules
  };
  if (std::ranges::any_of(inputs, deep)) return;
  Owner root;
  for (const SignatureEntry& entry : inputs) {
    if (entry.kind == "PARAMETER" && entry.target) root.at(*entry.target);
    if (is_state(entry)) root.at(*entry.target).own.push_back(entry);
  }
  std::vector<SignatureEntry> state;
  root.append_to(state);
  auto next = state.begin();
  for (SignatureEntry& entry : inputs) {
    if (is_state(entry)) entry = *next++;
  }
}

}  // namespace

// What is written to an input is listed before the results, as PyTorch does.
Signature read_signature(const Part& signature, const Retrace& retrace) {
  Signature stated = {entries_of(signature.at("input_specs")), entries_of(signature.at("output_specs"))};
  std::erase_if(stated.outputs, [](const SignatureEntry& entry) { return entry.kind.ends_with("_MUTATION"); });
  for (SignatureEntry& entry : stated.outputs) {
    if (const std::string* name = retrace.name(entry.name)) entry.name = *name;
  }
  list_constants_as_buffers(stated.inputs);
  std::vector<SignatureEntry> mutations;
  for (const auto& [state, holds] : retrace.written()) {
    const auto input = std::ranges::find(stated.inputs, state, &SignatureEntry::name);
    if (input == stated.inputs.end()) continue;
    const bool of_user = input->kind == "USER_INPUT";
    mutations.push_back(
        {input->kind + "_MUTATION", holds, of_user ? std::optional(input->name) : input->target, std::nullopt});
  }
  stated.outputs.insert(stated.outputs.begin(), mutations.begin(), mutations.end());
  return stated;
}

}  // namespace whence
