#include "annotator/pt2/signature.h"

#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace whence::pt2 {
namespace {

// "buffer_mutation" becomes BUFFER_MUTATION; two kinds have other names in an archive.
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

}  // namespace

Signature read_signature(const Part& signature) {
  return {entries_of(signature.at("input_specs")), entries_of(signature.at("output_specs"))};
}

}  // namespace whence::pt2
