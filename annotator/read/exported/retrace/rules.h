// What PyTorch's ONNX exporter makes of an operator when it decomposes a program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/read/exported/retrace/retrace.h"

namespace whence {

// Emits what becomes of an operator; false: it stays as it is.
using Rule = bool (*)(Retrace& trace, const FxCall& call);

struct RuleRow {
  std::string_view op;  // "aten.reshape", with all its overloads
  Rule rule;
};

std::span<const RuleRow> shape_rules();
std::span<const RuleRow> network_rules();
std::span<const RuleRow> recurrent_rules();
std::span<const RuleRow> loss_rules();
std::span<const RuleRow> joining_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> statistics_rules();
std::span<const RuleRow> number_rules();

// The operator's rule, where there is one.
bool apply_rule(Retrace& trace, const FxCall& call);

// "aten.ne" of "aten.not_equal", which ATen makes of it with the same arguments.
std::string plain_name(std::string op);

// Whether the result of "aten.select" and its like shares memory with the first argument.
bool is_view(std::string_view op);

struct WrittenView {
  std::string target;             // "aten.select.int"
  std::vector<std::string> rest;  // its arguments but the first
  std::string base, written;      // nodes: what is viewed, and what its view is to hold
  std::string sizes;              // of what is viewed
  std::int64_t rank;
};
// The operator that gives what is viewed, with its view replaced; no target where `written` is that already.
std::pair<std::string, std::vector<std::string>> inverse_of_view(const WrittenView& view);

}  // namespace whence
