// Implements the recording of a process: callbacks, the traces that each thread makes, and sidecar files.
#include "recorder/live/session.h"

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include <ATen/TracerMode.h>
#include <ATen/record_function.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <unistd.h>

#include "recorder/base/torch_error.h"
#include "recorder/live/trace.h"
#include "recorder/live/unobserved.h"
#include "recorder/live/warnings.h"
#include "schema/files/files.h"
#include "schema/files/paths.h"
#include "schema/json_text.h"
#include "schema/sidecar/file_names.h"
#include "schema/sidecar/sidecar.h"

namespace whence::recorder::live {

namespace tracer = torch::jit::tracer;

namespace {

using Clock = std::chrono::steady_clock;

// One trace. Only the tracing thread follows it, but another thread may call stop(), so it has a lock.
struct FollowedTrace {
  std::mutex lock;
  std::unique_ptr<LiveTrace> trace;
  std::thread::id thread = std::this_thread::get_id();
  bool in_python = !tracer::pythonCallstack().empty();
};

// Ensures that only one process on this machine records to a file. The lock is an abstract socket name in the kernel,
// not a file, so it disappears with the process.
class FileLock {
 public:
  explicit FileLock(const std::string& target) {
    const std::string place = place_of(target);
    const std::string name = "whence-recording-" + digest_of(place.data(), place.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(&address.sun_path[1], sizeof address.sun_path - 1);  // a leading zero makes it abstract: no file
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const bool in_use =
        socket_ >= 0 && bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0 && errno == EADDRINUSE;
    if (!in_use) return;
    close(socket_);
    throw Error(Code::recording_state, "another process records to '" + target + "'",
                "use a separate file for each recording", {.file = target, .stage = "record"});
  }
  ~FileLock() {
    if (socket_ >= 0) close(socket_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int socket_ = -1;
};

// Returns `path` if a sidecar can be written there, else throws: before the recording, not after an hour of tracing.
const std::string& checked_path(const std::string& path) {
  if (path.empty() || path.ends_with('/')) {
    throw Error(Code::cannot_write, "'" + path + "' is not a file name", "name the sidecar: model.whence.json",
                {.file = path, .stage = "record"});
  }
  require_sidecar_name(path);
  const AtomicFile probe(path);
  return path;
}

class Session {
 public:
  explicit Session(const std::string& path) : path_(checked_path(path)), file_lock_(path_) {
    callback_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&on_start, &on_end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~Session() { remove_callback(); }

  void remove_callback() {
    if (callback_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(callback_);
    callback_ = at::INVALID_CALLBACK_HANDLE;
  }

  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&);
  static void on_end(const at::RecordFunction& function, at::ObserverContext*);

  void operation_starts(const std::shared_ptr<Session>& self);
  void operation_ended(const at::RecordFunction& function, const std::shared_ptr<Session>& self);
  void name_call(const std::string& path, const std::shared_ptr<Session>& self);
  void trace_ended(FollowedTrace& followed);
  std::string finish();
  std::string state();
  const std::string& path() const { return path_; }

 private:
  FollowedTrace& follow(const std::shared_ptr<Session>& self);
  void guard_model(const std::function<void()>& step);
  void fail(const Error& error);
  void mark_modules_doubtful(FollowedTrace& before, FollowedTrace& now);
  void write_partial(FollowedTrace& followed);
  std::string numbered_path(std::size_t number) const;
  void write(const Program& program, bool complete, const std::string& path) const;

  const std::string path_;
  const FileLock file_lock_;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
  std::mutex lock_;  // guards the members below
  std::vector<std::shared_ptr<FollowedTrace>> traces_;
  Diagnostics diagnostics_;
  bool failed_ = false;
  Clock::time_point next_write_ = Clock::now();
};

std::mutex session_lock;
std::shared_ptr<Session> session;  // guarded by session_lock
std::thread::id session_thread;    // the thread that started the session; guarded by session_lock

std::shared_ptr<Session> running() {
  const std::lock_guard guard(session_lock);
  return session;
}

// Reports the end of a trace in its destructor. The tracer owns it, through the function below, as long as the trace
// runs.
struct Watch {
  std::weak_ptr<Session> session;
  std::shared_ptr<FollowedTrace> followed;
  tracer::TracingState* state;
  ~Watch() {
    if (tracer::getTracingState().get() == state) return;  // not the end: the tracer only set another function
    if (const auto owner = session.lock()) owner->trace_ended(*followed);
  }
};

// The tracer calls this function for the Python name of each tensor that an operation reads. It notes which tensor is
// which parameter, and returns the name from the original function.
struct NameLookup {
  std::function<std::string(const torch::autograd::Variable&)> original;
  std::shared_ptr<Watch> watch;

  std::string operator()(const torch::autograd::Variable& variable) const {
    static thread_local bool in_lookup = false;
    if (in_lookup) return "";
    in_lookup = true;
    try {
      if (const auto& state = tracer::getTracingState(); state && !watch->session.expired()) {
        const torch::jit::Value* value = state->getValue(variable);
        const Unobserved unobserved;
        const std::lock_guard guard(watch->followed->lock);
        watch->followed->trace->note_tensor(value, variable);
      }
    } catch (const std::exception&) {
      // A tensor without a value in the trace is not a parameter.
    }
    in_lookup = false;
    return original ? original(variable) : "";
  }
};

// Returns true if the tracer records the current operation. It records only outermost operations: not the operations
// that they call, and not those inside PyTorch's Python bindings, such as the view of an index assignment.
bool is_traced() { return tracer::isTracing() && at::tracer::impl::is_dispatch_enabled(); }

std::unique_ptr<at::ObserverContext> Session::on_start(const at::RecordFunction&) {
  if (!is_traced()) return nullptr;
  if (const auto current = running()) current->operation_starts(current);
  return nullptr;
}

void Session::on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (!is_traced()) return;
  if (const auto current = running()) current->operation_ended(function, current);
}

// Returns the trace of this thread. The tracer uses a default name function while it prepares the module's tensors, and
// then sets its own, so ours may have to be set twice.
FollowedTrace& Session::follow(const std::shared_ptr<Session>& self) {
  tracer::TracingState& state = *tracer::getTracingState();
  const NameLookup* lookup = state.lookup_var_name_fn.target<NameLookup>();
  if (lookup != nullptr && lookup->watch->session.lock() == self) return *lookup->watch->followed;
  std::shared_ptr<FollowedTrace> followed;
  {
    const std::lock_guard guard(lock_);
    for (const auto& existing : traces_) {
      const std::lock_guard trace_guard(existing->lock);
      if (existing->trace->follows(state.graph.get())) followed = existing;
    }
    if (followed == nullptr) {
      followed = std::make_shared<FollowedTrace>();
      followed->trace = std::make_unique<LiveTrace>(state.graph);
      for (const auto& other : traces_) mark_modules_doubtful(*other, *followed);
      traces_.push_back(followed);
    }
  }
  auto original = lookup == nullptr ? state.lookup_var_name_fn : lookup->original;
  FollowedTrace& result = *followed;
  state.lookup_var_name_fn =
      NameLookup{std::move(original), std::shared_ptr<Watch>(new Watch{self, std::move(followed), &state})};
  const Unobserved unobserved;
  const std::lock_guard guard(result.lock);
  result.trace->read_new_nodes();  // reads inputs and parameters before an operation uses them
  return result;
}

// Warns if two threads trace at the same time: PyTorch keeps one map of modules for all traces of a Python process, so
// the modules of both traces may be wrong.
void Session::mark_modules_doubtful(FollowedTrace& before, FollowedTrace& now) {
  const std::lock_guard trace_guard(before.lock);
  if (before.trace->ended() || before.thread == now.thread || !before.in_python || !now.in_python) return;
  before.trace->mark_modules_doubtful();
  now.trace->mark_modules_doubtful();
  Diagnostic warning;
  warning.code = Code::module_in_use;
  warning.severity = Severity::warning;
  warning.message =
      "two threads traced at the same time, and PyTorch keeps one map of modules per process; operations of both may "
      "be attributed to an enclosing module";
  warning.remedy = "trace one model after the other";
  warning.where.stage = "record";
  add_warning(diagnostics_, std::move(warning));
}

// Runs before the operation's arguments are looked up, so that the tensors of the first operation are also noted.
void Session::operation_starts(const std::shared_ptr<Session>& self) {
  guard_model([&] { follow(self); });
}

void Session::operation_ended(const at::RecordFunction& function, const std::shared_ptr<Session>& self) {
  guard_model([&] {
    FollowedTrace& followed = follow(self);
    const auto values = values_read_by_python(function);
    const Unobserved unobserved;
    const std::lock_guard guard(followed.lock);
    followed.trace->read_new_nodes();
    if (std::ranges::any_of(values, [&](const auto* value) { return followed.trace->is_data(value); })) {
      const std::lock_guard all(lock_);
      if (auto warning = used_value()) add_warning(diagnostics_, std::move(*warning));
    }
    if (Clock::now() >= next_write_) write_partial(followed);
  });
}

void Session::name_call(const std::string& path, const std::shared_ptr<Session>& self) {
  guard_model([&] {
    FollowedTrace& followed = follow(self);
    const std::lock_guard guard(followed.lock);
    followed.trace->name_call(path);
  });
}

// Ends the recording if a step throws. Exceptions of whence must not reach the user's model, which continues tracing.
void Session::guard_model(const std::function<void()>& step) {
  try {
    step();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception& error) {
    fail(Error(Code::internal, "the recording stopped: " + torch_message(error), "please report this with the model",
               {.file = path_, .stage = "record"}));
  }
}

void Session::fail(const Error& error) {
  remove_callback();
  const std::lock_guard guard(lock_);
  for (const Diagnostic& diagnostic : error.diagnostics()) diagnostics_.push_back(diagnostic);
  failed_ = true;
}

void Session::trace_ended(FollowedTrace& followed) {
  guard_model([&] {
    const Unobserved unobserved;
    const std::lock_guard guard(followed.lock);
    followed.trace->end();
  });
}

void Session::write(const Program& program, bool complete, const std::string& path) const {
  Sidecar sidecar;
  sidecar.program = program;
  sidecar.program.source.digest = program_digest(program);
  sidecar.complete = complete;
  write_sidecar(sidecar, path);
}

void Session::write_partial(FollowedTrace& followed) {
  const auto before = Clock::now();
  write(followed.trace->program(false), false, path_);
  const auto cost = Clock::now() - before;
  next_write_ = Clock::now() + std::max<Clock::duration>(50 * cost, std::chrono::milliseconds(500));
}

// Returns the path of the sidecar with this number: "model.whence.json" -> "model.2.whence.json".
std::string Session::numbered_path(std::size_t number) const {
  const std::size_t folder = path_.rfind('/') + 1;  // 0 if there is none
  const std::size_t dot = path_.find('.', folder + 1);
  if (number == 1) return path_;
  const std::string inserted = "." + std::to_string(number);
  return dot == std::string::npos ? path_ + inserted : path_.substr(0, dot) + inserted + path_.substr(dot);
}

bool is_sidecar(const std::string& path) {
  std::string start(256, ' ');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  std::erase_if(start, [](unsigned char c) { return std::isspace(c) != 0; });
  return start.starts_with(R"({"format":"whence-sidecar")");
}

// Throws unless a numbered sidecar can be written to `path`. The user did not choose this name, so only an older
// sidecar may be replaced, and links are not followed.
void require_sidecar_place(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  if (!std::filesystem::exists(status) || (std::filesystem::is_regular_file(status) && is_sidecar(path))) return;
  throw Error(Code::cannot_write, "the recording would overwrite " + path + ", which is not a sidecar",
              "move that file, or record into another folder", {.file = path, .stage = "record"});
}

// Returns a text that is equal only for traces of one model with one example, such as the two traces of check_trace.
std::string identity(const Program& program) {
  std::string text = program_digest(program);
  for (const Parameter& parameter : program.parameters) text += "," + parameter.digests.content;
  for (const Value& value : program.values) {
    if (!value.type.dims) continue;
    for (const Dim& dim : *value.type.dims) text += " " + std::to_string(dim.size);
  }
  return text;
}

std::string Session::finish() {
  remove_callback();
  const Unobserved unobserved;
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  std::set<std::string> seen;
  const std::lock_guard guard(lock_);
  std::vector<std::pair<Program, bool>> programs;
  bool any_reached_end = false;
  for (const auto& followed : traces_) {
    const std::lock_guard trace_guard(followed->lock);
    if (failed_) followed->trace->end_incomplete();
    any_reached_end |= followed->trace->reached_end();
  }
  for (const auto& followed : traces_) {
    const std::lock_guard trace_guard(followed->lock);
    // Skips failed traces if another one reached its end. check_trace traces everything twice: equal programs are
    // written once.
    if (any_reached_end && !followed->trace->reached_end()) continue;
    Program program = followed->trace->program(followed->trace->ended());
    if (!seen.insert(identity(program)).second) continue;
    programs.emplace_back(std::move(program), followed->trace->complete());
  }
  if (programs.empty()) {
    Error nothing(
        Code::recording_state, "nothing was traced while the recording ran",
        "call torch.jit.trace or torch.onnx.export(..., dynamo=False) inside it; for a scripted module save it "
        "and run: whence record model.pt",
        {.file = path_, .stage = "record"});
    if (diagnostics_.empty()) throw nothing;
    throw Error(diagnostics_);
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& [program, complete] = programs[i];
    const std::string path = numbered_path(i + 1);
    if (i > 0) require_sidecar_place(path);
    write(program, complete, path);
    files.push_back({{"file", path},
                     {"operations", operations(program).size()},
                     {"modules", program.modules.size()},
                     {"complete", complete}});
  }
  nlohmann::ordered_json diagnostics = nlohmann::ordered_json::array();
  for (const Diagnostic& diagnostic : diagnostics_)
    diagnostics.push_back(nlohmann::ordered_json::parse(to_json(diagnostic)));
  return json_text(nlohmann::ordered_json{{"files", files}, {"diagnostics", diagnostics}});
}

std::string Session::state() {
  const std::lock_guard guard(lock_);
  std::size_t count = 0;
  for (const auto& followed : traces_) {
    const std::lock_guard trace_guard(followed->lock);
    count += followed->trace->operations();
  }
  return json_text(
      nlohmann::ordered_json{{"recording", true}, {"file", path_}, {"traces", traces_.size()}, {"operations", count}});
}

// Writes the recording of a script that ends without stop().
void stop_at_exit() {
  if (running() == nullptr) return;
  try {
    stop();
  } catch (const std::exception&) {
    // No caller remains to receive the error, and the partial file is marked as partial.
  }
}

}  // namespace

void start(const std::string& path) {
  static const int registered = std::atexit(&stop_at_exit);
  (void)registered;
  const std::lock_guard guard(session_lock);
  if (session != nullptr && session_thread != std::this_thread::get_id()) {
    throw Error(Code::recording_state,
                "another thread records to '" + session->path() + "', and a process makes one recording at a time",
                "start this recording after that one has ended", {.file = path, .stage = "record"});
  }
  if (session != nullptr) {
    throw Error(Code::recording_state, "a recording to '" + session->path() + "' is running",
                "end it first: leave its `with whence.record(...)`, or call torch.ops.whence.stop()",
                {.file = path, .stage = "record"});
  }
  session = std::make_shared<Session>(path);
  session_thread = std::this_thread::get_id();
}

void name_call(const std::string& path) {
  const auto current = running();
  if (current != nullptr && tracer::isTracing()) current->name_call(path, current);
}

std::string stop() {
  std::shared_ptr<Session> ending;
  {
    const std::lock_guard guard(session_lock);
    ending = std::move(session);
    session = nullptr;
  }
  if (ending == nullptr) {
    throw Error(Code::recording_state, "no recording is running", "start one: torch.ops.whence.start(path)",
                {.stage = "record"});
  }
  return ending->finish();
}

std::string status() {
  const auto current = running();
  return current ? current->state() : json_text(nlohmann::ordered_json{{"recording", false}});
}

}  // namespace whence::recorder::live
