#include "recorder/script/liveness.h"

#include <algorithm>

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

const jit::Node* enclosing_node(const jit::Node& node) { return node.owningBlock()->owningNode(); }

bool encloses(const jit::Node& outer, const jit::Node& inner) {
  for (const jit::Node* node = enclosing_node(inner); node != nullptr; node = enclosing_node(*node)) {
    if (node == &outer) return true;
  }
  return false;
}

// Returns true if a loop around `at` returns to `reader` while the value is unchanged.
bool returns_to(const jit::Node& reader, const jit::Value& value, const jit::Node& at) {
  for (const jit::Node* loop = enclosing_node(at); loop != nullptr; loop = enclosing_node(*loop)) {
    if (encloses(*loop, *value.node())) return false;
    if (loop->kind() == c10::prim::Loop && encloses(*loop, reader)) return true;
  }
  return false;
}

}  // namespace

bool is_read_after(const jit::Value& value, const jit::Node& at) {
  return std::ranges::any_of(value.uses(), [&](const jit::Use& use) {
    const jit::Node& reader = *use.user;
    const bool part_of_it = &reader == &at || encloses(at, reader);
    return (!part_of_it && at.isBefore(&reader)) || returns_to(reader, value, at);
  });
}

bool is_read_in(const jit::Value& value, const jit::Node& loop) {
  if (encloses(loop, *value.node())) return false;
  return std::ranges::any_of(value.uses(), [&](const jit::Use& use) { return encloses(loop, *use.user); });
}

}  // namespace whence::recorder::script
