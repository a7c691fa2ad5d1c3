// Objects: the modules and other objects of the archive, with their attributes, parameters and constants as terms.
#pragma once

#include "recorder/archive/module_tree.h"
#include "recorder/script/recording.h"

namespace whence::recorder::script {

class Objects {
 public:
  Objects(Recording& recording, const archive::ModuleTree& tree) : recording_(recording), tree_(tree) {}

  // Returns the term of a host value. Tensors become parameters, or constants called `name`; containers get terms for
  // their items.
  Term from_host(const c10::IValue& value, const std::string& name);
  Term constant(const at::Tensor& tensor, const std::string& name);

  ModuleId module_of(const Term& object) const { return tree_.module_of(object.object.get()); }
  Term attribute(const Term& object, const std::string& name);
  // Evaluates prim::SetAttr. Warns if the archive contains the object: the change then outlives the call.
  void set_attribute(const Step& step);
  // Evaluates prim::CreateObject.
  Term create(const Step& step);

 private:
  Term parameter(ParameterId id, const at::Tensor& tensor);

  Recording& recording_;
  const archive::ModuleTree& tree_;
  std::unordered_map<const c10::ivalue::Object*, int> made_at_;  // depth at which the program created an object
  std::unordered_map<ParameterId, Term> parameters_;
  std::unordered_map<const c10::TensorImpl*, Term> constants_;
};

}  // namespace whence::recorder::script
