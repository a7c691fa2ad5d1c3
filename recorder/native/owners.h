// Finds the user's modules that performed the operations outside of layers and ModuleScopes.
//
// The user's forwards are plain functions that announce nothing, and their `this` cannot be read, so the result is
// never exact. Three facts are known about an operation: the classes of the functions on the stack (model_frames.h);
// the layers, with exact paths, that the same call of that function called before and after the operation; and the
// parameters that the operation reads. From the outermost frame inwards, the candidates for a frame are the modules of
// its class, or of a derived class, at or below the module of its caller. If one candidate remains, or the neighbouring
// layers agree on one, it is inferred. If several remain, or code of a module below may have been inlined without a
// frame, the operation gets the module around the candidates, with the basis `enclosing`.
#pragma once

#include <vector>

#include "recorder/native/model_frames.h"
#include "recorder/native/session.h"

namespace whence::native {

// An operation or a call directly in the block of a scope.
struct Item {
  torch::jit::Node* node = nullptr;
  const Note* note = nullptr;
  const torch::nn::Module* owner = nullptr;  // a user's module, at or below the scope's module
  ScopeBasis basis = ScopeBasis::inferred;
  // The module of which a new call starts at this item, although its previous call may still be open.
  const torch::nn::Module* starts_call_of = nullptr;
  // True if the stack does not show to which call of an enclosing module the item belongs: a loop may be inside the
  // call or around it.
  bool call_uncertain = false;
};

// Returns the items of `block`, the body of `scope`, in order, each with its owner.
std::vector<Item> find_owners(torch::jit::Block& block, const torch::nn::Module* scope, const Session& session,
                              ModelFrameFinder& finder);

}  // namespace whence::native
