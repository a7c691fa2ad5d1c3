// Session: one call of a module's forward under LibTorch's tracer, on one thread. LibTorch's layers and the user's
// ModuleScopes announce their calls to the session, and the tracer's hook reports every operation. The session stores
// the native stack for each. After forward has returned, scopes.h finds the module of each operation from these notes.
//
// Announced calls become scopes of the tracer immediately, like modules in Python.
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

// The stack and module at which a node was traced. The node is an operation or the scope of a module's call.
struct Note {
  NativeStack stack;
  const torch::nn::Module* scope = nullptr;   // for operations: the innermost module with an announced call
  const torch::nn::Module* called = nullptr;  // for scopes: the module
};

// A read of a tensor's value into the program, which a trace does not record.
struct Read {
  Note note;
  std::string op;
  torch::jit::Value* value = nullptr;
};

class Session {
 public:
  // Throws Error(module_in_use) if a module of the tree is already being recorded.
  explicit Session(const ModuleMirror& mirror);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  static Session* current();  // the session of this thread, or null

  // Starts a call of `module`. Returns false if it is not a module of the tree; then do not call leave().
  // `announcing_class` is the module's class or a base class. A base class's code may be only a part of the call.
  bool enter(const torch::nn::Module& module, const std::type_info& announcing_class);
  void leave();
  // Announces that the next operation, and only that one, belongs to the module if it is of this kind.
  void expect(const torch::nn::Module& module, const char* kind);
  void note_operation(torch::jit::Node* node);
  void note_read(const std::string& op, const at::Tensor& tensor);
  void finish();  // call it after forward has returned

  const Note* note(const torch::jit::Node* node) const;  // null for a node without a note
  const Note* last() const { return last_; }             // the last operation, or null
  const std::vector<Read>& reads() const { return reads_; }
  // Returns true if code of this module's own class has opened a ModuleScope.
  bool announces_itself(const torch::nn::Module* module) const;
  // Returns a module of the tree that another thread ran during the recording, or null.
  const torch::nn::Module* module_on_other_thread() const { return module_on_other_thread_; }
  const ModuleMirror& mirror() const { return mirror_; }

  // Notes that this thread, which has no session, runs a module. Another thread may be recording it.
  static void note_other_thread(const torch::nn::Module& module);

 private:
  struct Open {
    const torch::nn::Module* module;
    bool pushed;  // true if the tracer has a scope for it
  };
  void close_expected_scope();
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
  std::atomic<const torch::nn::Module*> module_on_other_thread_ = nullptr;
};

}  // namespace whence::native
