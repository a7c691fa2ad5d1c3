// Owners: which of the user's modules performed the operations that no layer and no ModuleScope claimed.
//
// The user's forwards are plain functions that announce nothing. What is known of an operation: the layers called
// before and after it, whose paths are exact; the native stack, which names the class whose code runs, if symbols are
// there; and the parameters that it reads. A frame is reused by the next call of the same function, so the same stack
// does not mean the same module: where the neighbouring layers belong to two modules, the code site at which that
// forward begins tells where the second one started.
//
// Exact is what debug information proves: it lists inlined functions too, so the class whose code runs is certain, and
// the module is the only one of the class, or both neighbours belong to it. All else is inferred; and where
// two modules are as likely, the one around both is named, as that.
#pragma once

#include <vector>

#include "recorder/native/session.h"

namespace whence::native {

// An operation or a call that stands directly in one scope's block.
struct Item {
  torch::jit::Node* node = nullptr;
  const Note* note = nullptr;
  const torch::nn::Module* owner = nullptr;  // a module of the user's at or below the scope's
  ScopeBasis basis = ScopeBasis::inferred;
  bool begins = false;  // the first of a new call of its owner, though the item before has the same owner
};

// The items of `block`, which is the body of `scope`, in order, each with its owner.
std::vector<Item> find_owners(torch::jit::Block& block, const torch::nn::Module* scope, const Session& session,
                              Symbols& symbols);

}  // namespace whence::native
