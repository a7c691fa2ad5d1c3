// NodeWriter: appends nodes to the Program, and determines the origin of each node.
#pragma once

#include <unordered_map>

#include "recorder/archive/source_frames.h"
#include "recorder/script/call.h"

namespace whence::recorder::script {

class NodeWriter {
 public:
  explicit NodeWriter(Program& program) : program_(program), frames_(program) {
    sink = &program.body.nodes;
    program.scopes.push_back({});
  }

  void write(Node node) { sink->push_back(std::move(node)); }

  Place place(const Step& step);
  Origin origin_of(const Step& step);
  // Returns the origin of a control flow node, which has neither a name nor a basis.
  Origin origin_of_block(const Step& step);
  Stack callers_of(const Step& step);
  // Adds the scope of the next call of `module`, made in `scope`.
  ScopeId enter(ScopeId scope, ModuleId module);

  // A point to which the recording can be rolled back. Values stay, because some are parameters and constants that were
  // used for the first time; unused values are dropped at the end (finish.cpp).
  struct Mark {
    std::size_t nodes, scopes;
    std::unordered_map<ModuleId, std::int32_t> calls;
  };
  Mark mark() const { return {sink->size(), program_.scopes.size(), calls_}; }
  void take_back(const Mark& mark);

  std::vector<Node>* sink = nullptr;  // receives the nodes; control flow replaces it with a block's list
  Diagnostics notes;

 private:
  StackId stack_of(const Step& step);

  Program& program_;
  archive::SourceFrames frames_;
  std::unordered_map<ModuleId, std::int32_t> calls_{{root_module, 1}};  // number of calls of each module so far
};

}  // namespace whence::recorder::script
