#include "recorder/script/node_writer.h"

namespace whence::recorder::script {

StackId NodeWriter::stack_of(const Step& step) {
  return frames_.stack_of(step.node, step.call.function, step.call.callers);
}

Place NodeWriter::place(const Step& step) {
  Place place;
  place.stage = "read";
  place.module = program_.module_path(step.call.scope);
  place.has_module = true;
  place.op = step.node.kind().toQualString();
  if (!step.node.outputs().empty()) place.node = step.node.outputs()[0]->debugName();
  // An unnamed value has only a number, which means nothing to a reader.
  if (place.node.find_first_not_of("0123456789") == std::string::npos) place.node.clear();
  const StackId stack = stack_of(step);
  if (stack != none_id) place.source = source_place(program_.stacks[stack].front());
  return place;
}

Origin NodeWriter::origin_of_block(const Step& step) {
  Origin origin;
  origin.scope = step.call.scope;
  origin.stack = stack_of(step);
  return origin;
}

Origin NodeWriter::origin_of(const Step& step) {
  Origin origin = origin_of_block(step);
  origin.basis = archive::SourceFrames::basis(step.node);
  if (!step.node.outputs().empty()) origin.name = program::base_name_of_value(step.node.outputs()[0]->debugName());
  return origin;
}

Stack NodeWriter::callers_of(const Step& step) {
  Stack callers;
  if (auto site = frames_.call_site(step.node, step.call.function)) callers.push_back(std::move(*site));
  callers.insert(callers.end(), step.call.callers.begin(), step.call.callers.end());
  return callers;
}

ScopeId NodeWriter::enter(ScopeId scope, ModuleId module) {
  return program_.scopes.add({scope, module, calls_[module]++});
}

void NodeWriter::take_back(const Mark& mark) {
  sink->resize(mark.nodes);
  program_.scopes.resize(mark.scopes);
  calls_ = mark.calls;
}

}  // namespace whence::recorder::script
