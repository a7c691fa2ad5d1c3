// Owners: which of the user's modules performed the operations that no layer and no ModuleScope claimed.
//
// The user's forwards are plain functions that announce nothing: `this` is not to be had, so nothing here is exact.
// What is known of an operation is the classes whose code was running (speakers.h); the layers that the same call of
// that code called before and after it, whose paths are exact; and the parameters that it reads. Read from the outside
// inwards, each speaker has a few modules that it can be: those of its class, or of one that derives from it, at or
// below the speaker that called it. One left, or one that the layers around agree on, is inferred. Where several are
// left, the module around them is named, as that; so it is where code of a module below may have been inlined unseen.
#pragma once

#include <vector>

#include "recorder/native/session.h"
#include "recorder/native/speakers.h"

namespace whence::native {

// An operation or a call that stands directly in one scope's block.
struct Item {
  torch::jit::Node* node = nullptr;
  const Note* note = nullptr;
  const torch::nn::Module* owner = nullptr;  // a module of the user's at or below the scope's
  ScopeBasis basis = ScopeBasis::inferred;
  const torch::nn::Module* begins = nullptr;  // a module of which this is the first of a new call; it may be open
  // The stack does not show which call of a module around this one it belongs to: a loop is inside of a call, or
  // around.
  bool supposed_call = false;
};

// The items of `block`, which is the body of `scope`, in order, each with its owner.
std::vector<Item> find_owners(torch::jit::Block& block, const torch::nn::Module* scope, const Session& session,
                              SpeakerFinder& speakers);

}  // namespace whence::native
