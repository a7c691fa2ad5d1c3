// V109: a domain that the model, or one function, imports more than once. "ai.onnx" and the empty name are one domain.
#include <map>
#include <set>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

void add_repeated(const std::vector<onnx_file::OnnxOpset>& opsets, const std::string& where,
                  std::vector<FindingItem>& items) {
  std::map<std::string_view, std::multiset<std::int64_t>> versions;
  for (const onnx_file::OnnxOpset& opset : opsets) versions[opset.domain].insert(opset.version);
  for (const auto& [domain, all] : versions) {
    if (all.size() == 1) continue;
    std::string text = where + " imports version ";
    for (const std::int64_t version : all)
      text += (text.ends_with("version ") ? "" : " and ") + std::to_string(version);
    items.push_back({domain.empty() ? "ai.onnx" : std::string(domain), std::move(text)});
  }
}

std::vector<FindingItem> find_domain_imported_twice(const CheckContext& context) {
  std::vector<FindingItem> items;
  add_repeated(context.model.opsets, "the model", items);
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    add_repeated(function.opsets, "function " + std::string(function.name), items);
  }
  return items;
}

}  // namespace

const Check domain_imported_twice_check = {
    {"V109", "domain_imported_twice", "domains that are imported more than once",
     "keep one opset_import for each domain",
     "Some readers use the first import, others the last, so the version of its operators is ambiguous.",
     Severity::error},
    find_domain_imported_twice};

}  // namespace whence::validation
