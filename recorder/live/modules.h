// LiveModules: finds the module tree and the parameters of a live trace. A torch.jit.trace has names and types of
// attributes; a torch.onnx.export trace has only scopes and names of parameters.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "schema/program.h"

namespace whence::recorder::live {

// One call of a module. Its scope is "__module.encoder.0", or "pkg.Layer::layer.0" in an ONNX export.
struct LiveCall {
  std::int32_t parent = -1;
  std::string scope;
  std::optional<std::string> path = std::nullopt;  // the qualified name, if it was reported
};

// A tensor that belongs to the model.
struct LiveTensor {
  std::string name;  // qualified
  ParameterKind kind = ParameterKind::parameter;
  bool trainable = false;
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  at::Tensor data;      // undefined if the trace never read it
  std::string tied_to;  // the first name of the same tensor; empty if this is the first name
  ValueId value = none_id;
};

class LiveModules {
 public:
  void add_module(const std::string& path, const std::string& type) { modules_.push_back({path, type}); }
  void add_tensor(LiveTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::vector<LiveTensor>& tensors() { return tensors_; }
  const std::vector<LiveTensor>& tensors() const { return tensors_; }

  struct Ids {
    std::vector<ScopeId> scope_of;          // by call
    std::vector<ParameterId> parameter_of;  // by tensor
  };
  // Fills modules, parameters and scopes of `program`. `touched` holds the tensors that the operations of each call
  // read; they distinguish modules with similar names. A call that is not `used` has no operation: it is counted, but
  // gets no scope.
  Ids fill(Program& program, const std::vector<LiveCall>& calls, const std::vector<std::vector<std::string>>& touched,
           const std::vector<bool>& used) const;

 private:
  struct Named {
    std::string path, type;
  };

  std::vector<std::string> paths_of(const std::vector<LiveCall>& calls,
                                    const std::vector<std::vector<std::string>>& touched) const;
  std::map<std::string, std::string> shared(const std::vector<Named>& modules,
                                            const std::vector<std::string>& called) const;
  void add_parameters(Program& program, const std::map<std::string, ModuleId>& ids, Ids& result) const;

  std::vector<Named> modules_;
  std::vector<LiveTensor> tensors_;
};

}  // namespace whence::recorder::live
