#include "annotator/validation/naming.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "annotator/origin/keys/torch.h"
#include "annotator/text/python_list.h"
#include "schema/module_path.h"

namespace whence::validation {

namespace keys = origin::keys;
using onnx_file::OnnxNode;

namespace {

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0) segments.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return segments;
}

// Returns "Linear" for "Linear_3".
std::string without_number(const std::string& text) {
  const std::size_t last = text.find_last_not_of("0123456789");
  const bool numbered = last != std::string::npos && last > 0 && last + 1 < text.size() && text[last] == '_';
  return numbered ? text.substr(0, last) : text;
}

bool is_camel_case(const std::string& text) {
  return !text.empty() && std::isupper(static_cast<unsigned char>(text.front())) != 0 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0; });
}

// The modules of the sidecar, for checking names; without a sidecar only the form of a name decides.
class KnownModules {
 public:
  explicit KnownModules(const Program* program) : has_sidecar_(program != nullptr) {
    if (!has_sidecar_) return;
    for (const Module& module : program->modules) {
      paths_.insert(module.path);
      paths_.insert(module.aliases.begin(), module.aliases.end());
      ++instances_[last_segment(module.type)];
    }
  }

  bool has_sidecar() const { return has_sidecar_; }
  bool has_path(const std::string& path) const { return !has_sidecar_ || paths_.count(path) > 0; }
  std::int64_t instances(const std::string& type) const {
    const auto found = instances_.find(last_segment(type));
    return found == instances_.end() ? 0 : found->second;
  }

  // With a sidecar, accepts the class of a module unless the text is just the operator's name; without a sidecar, any
  // name in camel case other than the operator's.
  bool is_class(const std::string& text, std::string_view op_type) const {
    const std::string base = without_number(text);
    return has_sidecar_ ? instances(base) > 0 && (base != op_type || text != base)
                        : is_camel_case(base) && base != op_type;
  }

 private:
  bool has_sidecar_;
  std::set<std::string> paths_;
  std::map<std::string, std::int64_t> instances_;
};

struct NodeNaming {
  Naming naming = Naming::simple;
  std::string name;  // the module or class
};

// Returns the innermost module; PyTorch's lists end with the operation itself.
std::optional<std::string> last_scope(const onnx_file::OnnxProperties& metadata, std::string_view key) {
  const auto list = text::parse_python_list(onnx_file::find_property(metadata, key).value_or(""));
  if (!list || list->size() < 2) return std::nullopt;
  return (*list)[list->size() - 2];
}

std::optional<NodeNaming> by_keys(const OnnxNode& node, const metadata::Recorded* recorded) {
  const metadata::Attribution attribution = metadata::attribution_of(node, recorded);
  if (attribution.attributed()) return NodeNaming{Naming::hierarchy, attribution.module};
  if (auto type = last_scope(node.metadata, keys::class_hierarchy))
    return NodeNaming{Naming::classes, std::move(*type)};
  return std::nullopt;
}

// Accepts numbered segments: PyTorch's TorchScript exporter names the second call of a module "twice_1".
std::optional<std::string> known_path(const std::vector<std::string>& segments, const KnownModules& modules) {
  std::string plain, unnumbered;
  for (const std::string& segment : segments) {
    plain += (plain.empty() ? "" : ".") + segment;
    unnumbered += (unnumbered.empty() ? "" : ".") + without_number(segment);
  }
  if (modules.has_path(plain)) return plain;
  return modules.has_path(unnumbered) ? std::optional(unnumbered) : std::nullopt;
}

NodeNaming by_name(const OnnxNode& node, const KnownModules& modules) {
  std::vector<std::string> segments = segments_of(node.name);
  const bool path = node.name.starts_with('/') || segments.size() > 1;
  if (path && !segments.empty()) segments.pop_back();  // the operator
  const bool classes = !segments.empty() && std::ranges::all_of(segments, [&](const std::string& segment) {
    return modules.is_class(segment, node.op_type);
  });
  if (classes) return {Naming::classes, without_number(segments.back())};
  if (!path) return {};
  if (auto known = known_path(segments, modules)) return {Naming::names_only, std::move(*known)};
  return {};
}

}  // namespace

std::string_view name_of(Naming naming) {
  constexpr std::array<std::string_view, naming_count> names = {"full_hierarchies", "names_alone", "class_scopes",
                                                                "simple_names"};
  return names[static_cast<std::size_t>(naming)];
}

std::string_view text_of(Naming naming) {
  constexpr std::array<std::string_view, naming_count> texts = {"full hierarchies", "only in the name", "class scopes",
                                                                "simple names"};
  return texts[static_cast<std::size_t>(naming)];
}

NamingReport naming_of(const CheckContext& context) {
  const KnownModules modules(context.program);
  NamingReport report;
  std::set<std::string> named;
  for (const OnnxNode* node : context.nodes) {
    const auto keyed = by_keys(*node, context.recorded);
    const NodeNaming found = keyed ? *keyed : by_name(*node, modules);
    ++report.counts[static_cast<std::size_t>(found.naming)];
    if (found.naming == Naming::hierarchy || found.naming == Naming::names_only) named.insert(found.name);
    if (found.naming != Naming::classes) continue;
    report.classes.push_back({shown_node(*node), found.name, modules.instances(found.name)});
    if (report.classes.back().instances > 1) ++report.ambiguous;
  }
  report.named_modules = static_cast<std::int64_t>(named.size());
  return report;
}

}  // namespace whence::validation
