// Implements sessions, and the functions by which layers and ModuleScopes announce calls.
#include "recorder/native/session.h"

#include <atomic>
#include <mutex>
#include <set>
#include <typeinfo>
#include <utility>

#include <dlfcn.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "recorder/native/layer_scope.h"
#include "schema/files/files.h"
#include "schema/result.h"
#include "whence/record.h"

namespace whence::native {

namespace jit = torch::jit;

namespace {

thread_local Session* current_session = nullptr;

// Sessions of all threads, to detect a module that runs on a thread that does not record it.
std::atomic<int> session_count{0};
std::mutex sessions_mutex;
std::set<Session*> sessions;

jit::Graph* traced_graph() {
  const auto& state = jit::tracer::getTracingState();
  return state ? state->graph.get() : nullptr;
}

}  // namespace

Session* Session::current() { return current_session; }

Session::Session(const ModuleMirror& mirror) : mirror_(mirror), outer_(current_session) {
  const std::lock_guard lock(sessions_mutex);
  for (const Session* other : sessions) {
    for (const torch::nn::Module* module : mirror.modules()) {
      if (other->mirror_.find(module) == nullptr) continue;
      throw Error(Code::module_in_use, "the module is being recorded already, by this thread or another one",
                  "record the module only once at a time",
                  {.stage = "record", .module = mirror.at(module).path, .has_module = true});
    }
  }
  current_session = this;
  sessions.insert(this);
  ++session_count;
}

Session::~Session() {
  current_session = outer_;
  const std::lock_guard lock(sessions_mutex);
  sessions.erase(this);
  --session_count;
}

void Session::close_expected_scope() {
  if (expecting_open_) traced_graph()->pop_scope();
  expecting_open_ = false;
  expecting_ = nullptr;
}

bool Session::enter(const torch::nn::Module& module, const std::type_info& announcing_class) {
  jit::Graph* graph = traced_graph();
  const MirroredModule* mirrored = mirror_.find(&module);
  if (graph == nullptr || mirrored == nullptr) return false;
  close_expected_scope();
  if (announcing_class == typeid(module)) announced_.insert(mirrored->type);
  // The root's scope is the graph itself. A forward that calls its base class's forward is still the same call. A
  // user's class that derives from a layer is not a layer: its call may contain more than the layer, so scopes.h makes
  // the scope.
  const bool layer_of_user = mirrored->kind == ModuleKind::user && announcing_class == typeid(LayerScope);
  const bool pushed = &module != mirror_.root() && !layer_of_user && innermost() != &module;
  if (pushed) {
    graph->push_scope(mirror_.at(&module).scope);
    notes_[graph->insertPoint()->owningBlock()->owningNode()] = {take_native_stack(), nullptr, &module};
  }
  open_.push_back({&module, pushed});
  return true;
}

void Session::leave() {
  close_expected_scope();
  const bool pushed = open_.back().pushed;
  open_.pop_back();
  jit::Graph* graph = traced_graph();  // null if an exception ended the trace
  if (pushed && graph != nullptr) graph->pop_scope();
}

void Session::expect(const torch::nn::Module& module, const char* kind) {
  if (traced_graph() == nullptr || mirror_.find(&module) == nullptr) return;
  close_expected_scope();
  expecting_ = &module;
  expected_kind_ = kind;
}

void Session::finish() { close_expected_scope(); }

void Session::note_operation(jit::Node* node) {
  if (node->kind().is_prim()) return;  // constants and lists, which precede the operation that reads them
  if (expecting_open_) close_expected_scope();
  Note note{take_native_stack(), innermost(), nullptr};
  if (expecting_ != nullptr && std::string_view(node->kind().toQualString()) == expected_kind_) {
    if (mirror_.at(expecting_).kind == ModuleKind::user) {
      note.scope = std::exchange(expecting_, nullptr);
      last_ = &(notes_[node] = std::move(note));
      return;
    }
    jit::Graph* graph = traced_graph();
    graph->push_scope(mirror_.at(expecting_).scope);
    notes_[graph->insertPoint()->owningBlock()->owningNode()] = {note.stack, nullptr, expecting_};
    note.scope = expecting_;
    expecting_ = nullptr;
    expecting_open_ = true;
  }
  last_ = &(notes_[node] = std::move(note));
}

void Session::note_read(const std::string& op, const at::Tensor& tensor) {
  const auto& state = jit::tracer::getTracingState();
  if (!state || !tensor.defined() || !state->hasValue(tensor)) return;
  // Attention compares query and key to find out whether they are the same tensor; this does not depend on their data.
  if (op == "aten::equal" && mirror_.at(innermost()).kind == ModuleKind::layer) return;
  reads_.push_back({{take_native_stack(), innermost(), nullptr}, op, state->getValue(tensor)});
}

const Note* Session::note(const jit::Node* node) const {
  const auto found = notes_.find(node);
  return found == notes_.end() ? nullptr : &found->second;
}

bool Session::announces_itself(const torch::nn::Module* module) const {
  return announced_.count(mirror_.at(module).type) > 0;
}

void Session::note_other_thread(const torch::nn::Module& module) {
  if (session_count == 0) return;
  const std::lock_guard lock(sessions_mutex);
  for (Session* session : sessions) {
    if (session->mirror_.find(&module) != nullptr) session->module_on_other_thread_ = &module;
  }
}

const torch::nn::Module* Session::innermost() const { return open_.empty() ? mirror_.root() : open_.back().module; }

// ---- functions that the interposed layers call --------------------------------------------------------------------

LayerScope::LayerScope(const torch::nn::Module* module) : open_(false) {
  if (Session* session = Session::current()) {
    open_ = session->enter(*module, typeid(LayerScope));
  } else {
    Session::note_other_thread(*module);
  }
}

LayerScope::~LayerScope() {
  if (open_) Session::current()->leave();
}

void expect_operation(const torch::nn::Module* module, const char* kind) {
  if (Session* session = Session::current()) session->expect(*module, kind);
}

void* next_in_libtorch(const std::string& mangled) {
  // Opens LibTorch by name: RTLD_NEXT searches only libraries after this one, and LibTorch may come before it.
  static void* const torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* found = torch == nullptr ? nullptr : dlsym(torch, mangled.c_str());
  if (found == nullptr) {
    throw Error(Code::needs_libtorch, "this LibTorch has no function " + mangled,
                "build the program and whence with one version of LibTorch", {.stage = "record"});
  }
  return found;
}

void register_layers(const void* begin, const void* end) { exclude_code(begin, end); }

void check_layers_interposed() {
  if (is_excluded(dlsym(RTLD_DEFAULT, "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE"))) return;
  throw Error(Code::unsupported_feature, "this program calls LibTorch's layers directly, not whence's",
              "link whence::recorder into the program itself, not into a library that it loads later, and keep the "
              "program's symbols visible to libraries",
              {.stage = "record"});
}

}  // namespace whence::native

namespace whence {

ModuleScope::ModuleScope(const torch::nn::Module& module, const std::type_info& speaker) : open_(false) {
  if (native::Session* session = native::Session::current()) {
    open_ = session->enter(module, speaker);
  } else {
    native::Session::note_other_thread(module);
  }
}

ModuleScope::~ModuleScope() {
  if (open_) native::Session::current()->leave();
}

}  // namespace whence
