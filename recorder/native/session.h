// Session: one call of a module's forward under LibTorch's tracer, on one thread. The library's layers and the user's
// ModuleScopes announce themselves to the session, and the tracer's hook reports every operation to it; the session
// notes each with the native stack at that moment. When forward has returned, scopes.h finds from the notes which
// module performed which operation.
//
// Layers become scopes of the tracer at once, as modules do in Python.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "recorder/base/torch_pch.h"
#include "recorder/native/module_mirror.h"
#include "recorder/native/native_stack.h"

namespace whence::native {

// The circumstances in which a node was traced: an operation, or the scope of a module's call.
struct Note {
  NativeStack stack;
  const torch::nn::Module* scope = nullptr;   // for operations: the innermost module that announced itself
  const torch::nn::Module* called = nullptr;  // for scopes: the module
};

// A read of a tensor's value into the program, which a trace cannot follow.
struct Read {
  Note note;
  std::string op;
  torch::jit::Value* value = nullptr;
};

class Session {
 public:
  // Throws Error(module_in_use) when a module of the tree is being recorded already.
  explicit Session(const ModuleMirror& mirror);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  static Session* current();  // the session of this thread, or null

  // Notes that a call of `module` begins. Returns false when it is not a module of the tree; then leave() must not be
  // called. `speaker` is the announcing class: the module's own, or a base class, whose code is only a part of what the
  // module does.
  bool enter(const torch::nn::Module& module, const std::type_info& speaker);
  void leave();
  // Announces that the next operation, and no other, belongs to the module if it is of this kind.
  void expect(const torch::nn::Module& module, const char* kind);
  void note_operation(torch::jit::Node* node);
  void note_read(const std::string& op, const at::Tensor& tensor);
  void finish();  // forward has returned

  const Note* note(const torch::jit::Node* node) const;  // null for a node that was not noted
  const Note* last() const { return last_; }             // the operation noted last, or none
  const std::vector<Read>& reads() const { return reads_; }
  // True if code of this module's own class has opened a ModuleScope.
  bool announces_itself(const torch::nn::Module* module) const;
  // Returns a module of the tree that another thread ran during the recording, or null.
  const torch::nn::Module* foreign() const { return foreign_; }
  const ModuleMirror& mirror() const { return mirror_; }

  // Call it in a thread without a session: notes that the thread runs a module which another thread is recording.
  static void note_foreign_thread(const torch::nn::Module& module);

 private:
  struct Open {
    const torch::nn::Module* module;
    bool pushed;  // as a scope of the tracer's
  };
  void settle();
  const torch::nn::Module* innermost() const;

  const ModuleMirror& mirror_;
  Session* outer_;
  std::vector<Open> open_;
  std::unordered_map<const torch::jit::Node*, Note> notes_;
  const Note* last_ = nullptr;
  std::vector<Read> reads_;
  std::set<std::string> announced_;  // types
  const torch::nn::Module* expecting_ = nullptr;
  const char* expected_kind_ = nullptr;
  bool expecting_open_ = false;
  std::atomic<const torch::nn::Module*> foreign_ = nullptr;
};

}  // namespace whence::native
