// Owners: which of the user's modules performed the operations that no layer and no ModuleScope claimed.
//
// The user's forwards are plain functions that announce nothing, and their `this` cannot be read, so the result is
// never exact. Three things are known about an operation: the classes whose code was running (speakers.h); the layers,
// with exact paths, that the same call of that code called before and after it; and the parameters that it reads. From
// the outermost speaker inwards, the candidates for a speaker are the modules of its class, or of a derived class, at
// or below the module of its caller. If one candidate is left, or the layers around agree on one, it is inferred. If
// several are left, or code of a module below may have been inlined unseen, the module around them is named, and marked
// as only enclosing.
#pragma once

#include <vector>

#include "recorder/native/session.h"
#include "recorder/native/speakers.h"

namespace whence::native {

// An operation or a call that stands directly in one scope's block.
struct Item {
  torch::jit::Node* node = nullptr;
  const Note* note = nullptr;
  const torch::nn::Module* owner = nullptr;  // a user's module, at or below the scope's
  ScopeBasis basis = ScopeBasis::inferred;
  // The module of which a new call begins with this item; the call may still be open.
  const torch::nn::Module* begins = nullptr;
  // True if the stack does not show which call of an enclosing module the item belongs to: a loop may be inside the
  // call, or around it.
  bool supposed_call = false;
};

// The items of `block`, which is the body of `scope`, in order, each with its owner.
std::vector<Item> find_owners(torch::jit::Block& block, const torch::nn::Module* scope, const Session& session,
                              SpeakerFinder& speakers);

}  // namespace whence::native
