// Traces forward at all sizes, makes sizes dynamic, and checks the result against the module.
#include "recorder/native/tracing.h"

#include <functional>
#include <mutex>
#include <unordered_set>

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "recorder/base/torch_error.h"
#include "recorder/native/saved_buffers.h"
#include "schema/files/files.h"
#include "schema/operator_facts.h"

namespace whence::native {

using recorder::first_line;
using recorder::torch_message;

namespace jit = torch::jit;

namespace {

// Writes the source range that Python's hook would write: a line "FILE(LINE): FUNCTION" for each Python frame. LibTorch
// has one hook for source lines and no function that returns it, so whence replaces Python's hook for all traces of the
// process. Without Python the stack is empty.
void note_python_stack(jit::Node* node) {
  std::string stack;
  std::optional<std::string> file;
  std::size_t first_line = 0;
  for (const jit::StackEntry& entry : jit::tracer::pythonCallstack()) {
    const auto& source = entry.range.source();
    if (source == nullptr || !source->filename()) continue;
    const std::size_t line = source->starting_line_no() + source->lineno_for_offset(entry.range.start());
    stack += *source->filename() + "(" + std::to_string(line) + "): " + entry.filename + "\n";
    if (file) continue;
    file = source->filename();
    first_line = line;
  }
  if (!file) return;
  const std::size_t length = stack.size();
  node->setSourceRange(jit::SourceRange(std::make_shared<jit::Source>(std::move(stack), file, first_line), 0, length));
}

void on_operation(jit::Node* node) {
  if (Session* session = Session::current()) {
    session->note_operation(node);
  } else {
    note_python_stack(node);
  }
}

// Notes reads of tensor values by the program. They are not traced, so LibTorch's profiler callbacks report them.
class ReadObserver {
 public:
  ReadObserver()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&on_call).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}
  ~ReadObserver() { at::removeCallback(handle_); }
  ReadObserver(const ReadObserver&) = delete;
  ReadObserver& operator=(const ReadObserver&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& call) {
    static const std::unordered_set<std::string> reading = {"aten::_local_scalar_dense", "aten::equal"};
    Session* session = Session::current();
    if (session != nullptr && reading.count(call.name()) > 0) {
      for (const c10::IValue& input : call.inputs()) {
        if (input.isTensor()) session->note_read(call.name(), input.toTensor());
      }
    }
    return nullptr;
  }

  at::CallbackHandle handle_;
};

bool depends_on_input(const jit::Value* value, const jit::Graph& graph, std::unordered_set<const jit::Node*>& seen) {
  const jit::Node* node = value->node();
  if (node == graph.param_node()) return value != graph.inputs()[0];
  if (!seen.insert(node).second) return false;
  return std::any_of(node->inputs().begin(), node->inputs().end(),
                     [&](const jit::Value* input) { return depends_on_input(input, graph, seen); });
}

class ModuleTracer {
 public:
  ModuleTracer(torch::nn::Module& module, const std::vector<std::string>& names, const Forward& forward)
      : module_(module), names_(names), forward_(forward) {
    static std::once_flag once;
    std::call_once(once, [] { jit::tracer::setRecordSourceLocation(&on_operation); });
  }

  Result<TracedModule> run(const Inputs& inputs, std::vector<TracedSize> sizes, const std::vector<Inputs>& resized) {
    std::vector<std::vector<Step>> traces(1);
    std::vector<std::pair<const Inputs*, c10::IValue>> seen;
    for (const Inputs& other : resized) {
      // Scopes become methods of the mirror at the end of a trace, so each trace needs its own mirror.
      ModuleMirror mirror(module_);
      const Result<Trace> done = trace(mirror, other, [&](jit::Graph& graph, const Session& session) {
        traces.push_back(steps_of(graph, session));
      });
      if (done) {
        seen.emplace_back(&other, done->output);
        continue;
      }
      if (traces.size() == 1) return other_size_failed(done.diagnostics().front());
      for (TracedSize& size : sizes) size.seen.erase(size.seen.begin() + static_cast<std::ptrdiff_t>(traces.size()));
    }
    TracedModule traced;
    ModuleMirror mirror(module_);
    const Trace done = value_of(trace(mirror, inputs, [&](jit::Graph& traced_graph, const Session& session) {
      refuse_reads(traced_graph, session);
      for (const jit::Node* node : traced_graph.nodes()) {
        const std::string target = node->kind().toQualString();
        if (facts_of(target).data_dependent_sizes) traced.data_sized_operators.insert(target);
      }
      const ScopeCount count = move_into_scopes(traced_graph, session, symbols_);
      traced.report.exact = count.exact;
      traced.report.inferred = count.inferred;
      traced.report.ancestor = count.enclosing;
      traced.report.operations = count.exact + count.inferred + count.enclosing;
      if (sizes.empty()) return;
      traces[0] = steps_of(traced_graph, session);
      for (const Step* step : make_dynamic(traced_graph, traces, sizes, symbols_)) {
        traced.report.dynamic.push_back(source_of(step->stack, symbols_));
      }
      for (const TracedSize& size : sizes) traced.report.sizes[size.name] = size.seen;
    }));
    jit::Module& self = mirror.self();
    jit::Function* method = self._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*self.type()->name(), "forward"), done.graph);
    self.type()->addMethod(method);
    traced.module = self;
    for (const auto& [other, output] : seen) check_other_size(traced.module, *other, output);
    traced.changed_buffers = changed_;
    return traced;
  }

 private:
  struct Trace {
    std::shared_ptr<jit::Graph> graph;
    c10::IValue output;
  };
  using AtEnd = std::function<void(jit::Graph&, const Session&)>;

  // Returns run_failed if forward fails; throws other errors.
  Result<Trace> trace(ModuleMirror& mirror, const Inputs& inputs, const AtEnd& at_end) {
    jit::Stack stack;
    for (const at::Tensor& input : inputs) stack.emplace_back(input.detach().clone());
    const SavedBuffers saved_buffers(module_, changed_);
    Session session(mirror);
    const ReadObserver observer;
    const at::NoGradGuard no_grad;
    std::optional<Error> refused;
    try {
      const auto call = [&](jit::Stack given) -> jit::Stack {
        Inputs tensors;
        for (const c10::IValue& input : given) tensors.push_back(input.toTensor());
        const c10::IValue output = forward_(tensors);
        session.finish();
        refuse_other_threads(session);
        try {
          at_end(*jit::tracer::getTracingState()->graph, session);
        } catch (const Error& error) {
          refused = error;
          throw;
        }
        return {output};
      };
      const auto no_name = [](const at::Tensor&) { return std::string(); };
      const auto [state, output] = jit::tracer::trace(std::move(stack), call, no_name, /*strict=*/true,
                                                      /*force_outplace=*/false, &mirror.self(), names_);
      return Trace{state->graph, output.front()};
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (refused) throw *refused;
      refuse_other_threads(session);
      return failed(session, torch_message(error));
    } catch (...) {
      return failed(session, "it threw something that is not a std::exception");
    }
  }

  Error failed(const Session& session, const std::string& why) {
    return Error(Code::run_failed, "forward failed: " + why, "pass inputs that the module accepts",
                 session.last() == nullptr ? Place{.stage = "record"} : place(session, *session.last()));
  }

  static Error other_size_failed(Diagnostic diagnostic) {
    diagnostic.code = Code::baked_size;
    diagnostic.message = "the module does not accept another size of a dynamic axis: " + diagnostic.message;
    diagnostic.remedy = "compute with the input's sizes in the module, or leave that axis out of dynamic_axes";
    return Error(std::move(diagnostic));
  }

  // Runs the recorded program at another size and compares its results with the module's. They differ if a tensor
  // depends on a size in a way that the traces do not show.
  void check_other_size(jit::Module& self, const Inputs& inputs, const c10::IValue& expected) {
    const SavedBuffers saved_buffers(module_, changed_);
    const at::NoGradGuard no_grad;
    const jit::GraphOptimizerEnabledGuard plain(false);
    std::string why;
    try {
      std::vector<c10::IValue> given;  // copies, because the program may write to them
      for (const at::Tensor& input : inputs) given.emplace_back(input.clone());
      const c10::IValue result = self.forward(std::move(given));
      if (close(result, expected)) return;
      why = "the results differ";
    } catch (const std::exception& error) {
      why = torch_message(error);
    }
    throw Error(Code::baked_size, "the recorded program does not match the module at another size: " + why,
                "let forward depend only on its inputs and parameters, or leave dynamic_axes out", {.stage = "record"});
  }

  static bool close(const c10::IValue& a, const c10::IValue& b) {
    if (a.isTensor() && b.isTensor()) {
      const at::Tensor &x = a.toTensor(), &y = b.toTensor();
      return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
             at::allclose(x.to(at::kDouble), y.to(at::kDouble), 1e-3, 1e-4, /*equal_nan=*/true);
    }
    if (!a.isTuple() || !b.isTuple()) return a.tagKind() == b.tagKind();
    const auto &x = a.toTupleRef().elements(), &y = b.toTupleRef().elements();
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), &ModuleTracer::close);
  }

  Place place(const Session& session, const Note& note) {
    return {.stage = "record",
            .module = session.mirror().at(note.scope).path,
            .has_module = true,
            .source = source_of(note.stack, symbols_)};
  }

  void refuse_reads(const jit::Graph& graph, const Session& session) {
    Diagnostics problems;
    for (const Read& read : session.reads()) {
      std::unordered_set<const jit::Node*> seen;
      if (!depends_on_input(read.value, graph, seen)) continue;
      Place where = place(session, read.note);
      where.op = read.op;
      if (!problems.empty() && problems.back().where == where) continue;
      problems.push_back({Code::unsupported_feature,
                          Severity::error,
                          "forward reads the value of a tensor that depends on the input; a trace would fix everything "
                          "computed from it",
                          where,
                          "use tensor operations in place of branches and numbers: torch::where, clamp, masked_fill",
                          1,
                          {}});
    }
    if (!problems.empty()) throw Error(std::move(problems));
  }

  void refuse_other_threads(const Session& session) {
    const torch::nn::Module* module = session.module_on_other_thread();
    if (module == nullptr) return;
    throw Error(Code::module_in_use, "another thread called the module while it was being recorded",
                "record while no other thread runs the module",
                {.stage = "record", .module = session.mirror().at(module).path, .has_module = true});
  }

  torch::nn::Module& module_;
  const std::vector<std::string>& names_;
  const Forward& forward_;
  Symbols symbols_;
  std::set<std::string> changed_;
};

}  // namespace

Result<TracedModule> trace_module(torch::nn::Module& module, const Inputs& inputs,
                                  const std::vector<std::string>& names, const Forward& forward,
                                  std::vector<TracedSize> sizes, const std::vector<Inputs>& resized) {
  return ModuleTracer(module, names, forward).run(inputs, std::move(sizes), resized);
}

}  // namespace whence::native
