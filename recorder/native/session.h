// Session: one call of a module's forward under LibTorch's tracer, on one thread. The library's layers and the user's
// ModuleScopes announce themselves to it, the tracer's hook tells it of every operation; each with the native stack at
// that moment. When forward has returned, scopes.h reads what was noted and says which module performed what.
//
// A session holds nothing back from the tracer: layers become its scopes at once, as Python's modules do.
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

// What was noted of a node: an operation, or the scope of a module's call.
struct Note {
  NativeStack stack;
  const torch::nn::Module* scope = nullptr;   // of operations: the innermost module that announced itself
  const torch::nn::Module* called = nullptr;  // of scopes: the module
};

// The value of a tensor was read into the program, which a trace does not follow.
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

  static Session* current();  // of this thread, or none

  // A call of `module` begins; false when it is not a module of the tree, and then it must not be left. `speaker` is
  // the class that says so: the module's own, or one that it derives from, which does not speak for all that the module
  // does.
  bool enter(const torch::nn::Module& module, const std::type_info& speaker);
  void leave();
  // The next operation is the module's, and it alone, if it is of this kind.
  void expect(const torch::nn::Module& module, const char* kind);
  void note_operation(torch::jit::Node* node);
  void note_read(const std::string& op, const at::Tensor& tensor);
  void finish();  // forward has returned

  const Note* note(const torch::jit::Node* node) const;  // null for what was not noted
  const Note* last() const { return last_; }             // the operation noted last, or none
  const std::vector<Read>& reads() const { return reads_; }
  // True if code of this module's own class has opened a ModuleScope.
  bool announces_itself(const torch::nn::Module* module) const;
  // A module of the tree that another thread ran meanwhile, or none.
  const torch::nn::Module* foreign() const { return foreign_; }
  const ModuleMirror& mirror() const { return mirror_; }

  // Called from a thread without a session: a module that is being recorded must not run elsewhere meanwhile.
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
