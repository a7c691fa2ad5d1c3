// NodeWriter: where the nodes of the Program go, and what each of them says of where it comes from.
#pragma once

#include <unordered_map>

#include "recorder/archive/source_frames.h"
#include "recorder/script/call.h"

namespace whence::recorder {

class NodeWriter {
 public:
  explicit NodeWriter(Program& program) : program_(program), frames_(program) {
    sink = &program.body.nodes;
    program.scopes.push_back({none_id, 0, 0});
  }

  void write(Node node) { sink->push_back(std::move(node)); }

  Place place(const Step& step);
  Origin origin_of(const Step& step);
  // The origin of a node for control flow, which has neither a name nor a basis.
  Origin origin_of_block(const Step& step);
  Stack callers_of(const Step& step);
  // The scope of the next call of `module` out of `scope`.
  ScopeId enter(ScopeId scope, ModuleId module);

  // A point to which writing can be taken back. Values stay, for parameters and constants may have been met for the
  // first time; those that nothing mentions go in the end (finish.cpp).
  struct Mark {
    std::size_t nodes, scopes;
    std::unordered_map<ModuleId, std::int32_t> calls;
  };
  Mark mark() const { return {sink->size(), program_.scopes.size(), calls_}; }
  void take_back(const Mark& mark);

  std::vector<Node>* sink = nullptr;  // where nodes go; control flow exchanges it for a block's
  Diagnostics notes;

 private:
  StackId stack_of(const Step& step);

  Program& program_;
  SourceFrames frames_;
  std::unordered_map<ModuleId, std::int32_t> calls_{{0, 1}};  // of each module so far
};

}  // namespace whence::recorder
