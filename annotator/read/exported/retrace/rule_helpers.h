// What several files of rules need.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/merge/python_text.h"
#include "annotator/read/exported/retrace/rules.h"

namespace whence {

inline std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

inline std::string_view self(const FxCall& call) { return call.given.empty() ? "" : call.given.front().value; }

inline std::string first(const FxCall& call) { return call.given.empty() ? "None" : call.given.front().text; }

inline std::int64_t axis_of(const FxCall& call, std::string_view name, std::int64_t rank, std::int64_t otherwise = 0) {
  const std::int64_t axis = call.integer(name, otherwise);
  return axis < 0 ? axis + rank : axis;
}

// It returns what it is given.
inline bool alias(Retrace& t, const FxCall& c) { return t.yield_same(self(c)), true; }

// ---- recipes ------------------------------------------------------------------------------------------------------

template <std::size_t n>
struct Text {
  constexpr Text(const char (&text)[n]) { std::ranges::copy(text, value); }
  char value[n];
};

using Named = std::vector<std::pair<std::string_view, std::string>>;

// Emits what a recipe says:
// "abs $self; le.Scalar %1 $lambd=0.5; zeros_like $self pin_memory:False": operators of aten after each other, each
// with what it is given: an argument of the operator that is replaced ($name, with its default), what is `named` so,
// the result of a step (%1), a number, a list of such without spaces, or a keyword. A step whose result is not of the
// operator's dtype says which: "arange/int64 4".
std::string emit_recipe(Retrace& t, const FxCall& c, std::string_view recipe, const Named& named = {});

// The nodes in a list's text.
inline std::vector<std::string> nodes_in(const std::string& list) {
  std::vector<std::string> nodes;
  each_reference(list, [&](FxId node) { nodes.push_back(reference_to(node)); });
  return nodes;
}

inline std::string list_of(const std::vector<std::string>& nodes) {
  std::string text;
  for (const std::string& node : nodes) append_item(text, node);
  return "[" + text + "]";
}

template <Text text>
bool recipe(Retrace& t, const FxCall& c) {
  return t.yield(emit_recipe(t, c, text.value)), true;
}

}  // namespace whence
