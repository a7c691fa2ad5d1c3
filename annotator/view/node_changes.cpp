#include "annotator/view/node_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "annotator/functions/default_attribute.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/read_parts.h"
#include "annotator/onnx_file/release_part.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/onnx_file/wire_in.h"
#include "annotator/text/table.h"
#include "annotator/view/attribute_text.h"
#include "schema/dtype.h"
#include "schema/element_count.h"

namespace whence::view {

namespace wire = onnx_file::wire;
namespace fields = onnx_file::proto::attribute;
using onnx_file::OnnxAttribute;
using onnx_file::OnnxNode;
using onnx_file::OnnxTensor;

namespace {

void add_tensors(const onnx_file::OnnxGraph& graph, std::unordered_map<std::string_view, const OnnxTensor*>& tensors) {
  for (const OnnxTensor& tensor : graph.initializers) tensors.emplace(tensor.name, &tensor);
  for (const OnnxNode& node : graph.nodes) {
    for (const onnx_file::OnnxGraph& body : node.subgraphs) add_tensors(body, tensors);
  }
}

// Returns "float32[3,4]".
std::string form_of(const OnnxTensor& tensor) {
  const DType dtype = from_onnx(tensor.data_type);
  std::string text =
      dtype == DType::undefined ? "type " + std::to_string(tensor.data_type) : std::string(name_of(dtype));
  text += '[';
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(tensor.dims[i]);
  return text + ']';
}

// Returns the tensor of an attribute; nullopt if it has another type.
std::optional<OnnxTensor> tensor_in(const OnnxAttribute& attribute, const Place& place) {
  for (const wire::Field& field : wire::Fields(attribute.message, place)) {
    if (field.is_bytes(fields::t)) return onnx_file::read_tensor(field.bytes, place);
  }
  return std::nullopt;
}

std::string number_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", number);
  return text.data();
}

template <class Number>
std::string difference_of_numbers(std::string_view a, std::string_view b) {
  std::int64_t different = 0;
  double largest = 0;
  for (std::size_t at = 0; at + sizeof(Number) <= a.size(); at += sizeof(Number)) {
    Number one, other;
    std::memcpy(&one, a.data() + at, sizeof one);
    std::memcpy(&other, b.data() + at, sizeof other);
    if (std::memcmp(&one, &other, sizeof one) == 0) continue;
    ++different;
    largest = std::max(largest, std::abs(static_cast<double>(one) - static_cast<double>(other)));
  }
  const auto all = static_cast<std::int64_t>(a.size() / sizeof(Number));
  return text::grouped(different) + " of " + text::grouped(all) + (all == 1 ? " element" : " elements") +
         ", by at most " + number_text(largest);
}

std::string difference_of_bytes(int data_type, std::string_view a, std::string_view b) {
  if (a == b) return "";
  if (a.size() != b.size()) return "other values";
  switch (from_onnx(data_type)) {
    case DType::float32:
      return difference_of_numbers<float>(a, b);
    case DType::float64:
      return difference_of_numbers<double>(a, b);
    case DType::int64:
      return difference_of_numbers<std::int64_t>(a, b);
    case DType::int32:
      return difference_of_numbers<std::int32_t>(a, b);
    default:
      return "other values";
  }
}

const OnnxAttribute* find_attribute(const OnnxNode& node, std::string_view name) {
  const auto found = std::ranges::find(node.attributes, name, &OnnxAttribute::name);
  return found == node.attributes.end() ? nullptr : &*found;
}

}  // namespace

NodeChanges::File::File(const onnx_file::OnnxSummary& summary)
    : model(summary), place{.file = summary.file->path(), .stage = "read"}, bytes(summary.file->path()) {
  add_tensors(summary.graph, tensors);
}

std::int64_t opset_version(const onnx_file::OnnxSummary& model, std::string_view domain) {
  const auto found = std::ranges::find(model.opsets, domain, &onnx_file::OnnxOpset::domain);
  return found == model.opsets.end() ? 0 : found->version;
}

NodeChanges::NodeChanges(const onnx_file::OnnxSummary& a, const onnx_file::OnnxSummary& b) : a_(a), b_(b) {}

std::vector<std::string> NodeChanges::between(const OnnxNode& a, const OnnxNode& b) {
  std::vector<std::string> changes;
  compare_attributes(a, b, changes);
  for (std::size_t i = 0; i < std::min(a.inputs.size(), b.inputs.size()); ++i) {
    const auto one = a_.tensors.find(a.inputs[i]), other = b_.tensors.find(b.inputs[i]);
    if (one == a_.tensors.end() || other == b_.tensors.end()) continue;
    if (auto change = change_of(*one->second, *other->second)) changes.push_back(std::move(*change));
  }
  return changes;
}

// Skips graphs: their nodes are compared one by one.
void NodeChanges::compare_attributes(const OnnxNode& a, const OnnxNode& b, std::vector<std::string>& changes) {
  std::vector<std::string_view> names;
  for (const OnnxNode* node : {&a, &b}) {
    for (const OnnxAttribute& each : node->attributes) {
      const bool known = std::ranges::find(names, each.name) != names.end();
      if (!each.holds_graph && !known) names.push_back(each.name);
    }
  }
  for (const std::string_view name : names) {
    const OnnxAttribute *one = find_attribute(a, name), *other = find_attribute(b, name);
    const OnnxNode& without = one == nullptr ? a : b;
    std::optional<std::string> message;
    OnnxAttribute omitted;
    if (one == nullptr || other == nullptr) {
      message = functions::default_attribute(without.domain, without.op_type,
                                             opset_version((one == nullptr ? a_ : b_).model, without.domain), name);
      if (message) {
        omitted = {name, *message, {}, false};
        (one == nullptr ? one : other) = &omitted;
      }
    }
    if (one != nullptr && other != nullptr) {
      if (auto change = change_of(*one, *other)) changes.push_back(std::string(name) + " " + *change);
      continue;
    }
    const std::string value = attribute_text(one != nullptr ? *one : *other, (one != nullptr ? a_ : b_).place);
    changes.push_back(std::string(name) + (one != nullptr ? " " + value + " -> none" : " none -> " + value));
  }
}

std::optional<std::string> NodeChanges::change_of(const OnnxAttribute& a, const OnnxAttribute& b) {
  if (a.message == b.message) return std::nullopt;
  const auto one = tensor_in(a, a_.place), other = tensor_in(b, b_.place);
  if (one && other) {
    const std::string found = difference(*one, *other);
    return found.empty() ? std::nullopt : std::optional(found);
  }
  if (whole_attribute_text(a, a_.place) == whole_attribute_text(b, b_.place)) return std::nullopt;
  return attribute_text(a, a_.place) + " -> " + attribute_text(b, b_.place);
}

std::optional<std::string> NodeChanges::change_of(const OnnxTensor& a, const OnnxTensor& b) {
  const auto [entry, is_new] = compared_.try_emplace(Pair(&a, &b));
  if (is_new) {
    entry->second = difference(a, b);
    if (!entry->second.empty()) {
      const std::string names = std::string(a.name) + (a.name == b.name ? std::string() : " -> " + std::string(b.name));
      entry->second = names + ": " + entry->second;
    }
  }
  return entry->second.empty() ? std::nullopt : std::optional(entry->second);
}

std::string NodeChanges::difference(const OnnxTensor& a, const OnnxTensor& b) {
  if (form_of(a) != form_of(b)) return form_of(a) + " -> " + form_of(b);
  try {
    std::string typed_a, typed_b;
    const std::string_view one = a_.bytes.of(a, typed_a), other = b_.bytes.of(b, typed_b);
    std::string found = difference_of_bytes(a.data_type, one, other);
    onnx_file::release_part(*a_.model.file, a.raw);
    onnx_file::release_part(*b_.model.file, b.raw);
    return found;
  } catch (const Error& error) {
    if (notes_.empty()) {
      Diagnostic unread = error.diagnostics().front();
      unread.severity = Severity::warning;
      unread.message = "weights were not compared: " + unread.message;
      notes_.push_back(std::move(unread));
    }
    return "";
  }
}

}  // namespace whence::view
