// libwhence_recorder.so: the library that the command and torch.ops.load_library load. It does not link LibTorch, so it
// loads with any version. It loads libwhence_recorder_torch.so only if that was built for the running LibTorch, because
// LibTorch's symbols and structures change between versions.
//
// In a Python process that has imported torch, loading this library is enough: afterwards the operators
// `whence::start`, `stop` and `status` exist, or the load fails with an OSError that contains the remedy. The command
// calls whence_open_recorder() instead.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "schema/recorder_api.h"
#include "schema/result.h"

namespace {

namespace fs = std::filesystem;
using whence::Diagnostic;

constexpr const char* built_for = WHENCE_TORCH_VERSION;

// Returns the file of a loaded library.
fs::path file_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  return map->l_name;
}

fs::path own_folder() {
  Dl_info found{};
  if (dladdr(built_for, &found) == 0) return {};
  return fs::absolute(found.dli_fname).parent_path();
}

// Returns the version, such as "2.13.0", from LibTorch's stable C interface, which packs it into the highest three
// bytes. Returns "" for LibTorch before 2.7, which lacks the function.
std::string version_of(void* torch) {
  using AbiVersion = std::uint64_t (*)();
  const auto version = reinterpret_cast<AbiVersion>(dlsym(torch, "aoti_torch_abi_version"));
  if (version == nullptr) return "";
  const std::uint64_t packed = version();
  return std::to_string(packed >> 56 & 0xff) + "." + std::to_string(packed >> 48 & 0xff) + "." +
         std::to_string(packed >> 40 & 0xff);
}

Diagnostic refusal(const std::string& message, const std::string& remedy) {
  return {whence::Code::needs_libtorch, whence::Severity::error, message, {.stage = "load recorder"}, remedy, 1, {}};
}

// Returns "2.13" for "2.13.0". PyTorch does not change symbols and structures within a minor version.
std::string minor_version(const std::string& version) {
  const std::size_t major = version.find('.');
  return major == std::string::npos ? version : version.substr(0, version.find('.', major + 1));
}

std::optional<Diagnostic> refuse_other_version(void* torch) {
  const std::string running = version_of(torch);
  if (minor_version(running) == minor_version(built_for)) return std::nullopt;
  const fs::path folder = file_of(torch).parent_path().parent_path();
  const std::string named = running.empty() ? "older than 2.7" : running;
  return refusal("this recorder was built for PyTorch " + std::string(built_for) + ", and the PyTorch in " +
                     folder.string() + " is " + named,
                 "whence recorder build, in the environment of that PyTorch; in whence's source `TORCH_DIR=" +
                     folder.string() + " make build`; or pip install torch==" + built_for);
}

using LoadFailure = std::optional<Diagnostic>;  // none if the library was loaded

void* recorder = nullptr;

LoadFailure load(void* torch) {
  if (auto other = refuse_other_version(torch)) return other;
  const fs::path library = own_folder() / "libwhence_recorder_torch.so";
  // RTLD_LOCAL: LibTorch's own copies of protobuf and ONNX must not be mixed with the command's.
  recorder = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (recorder != nullptr) return std::nullopt;
  return refusal("the recorder could not be loaded: " + std::string(dlerror()), "whence recorder build");
}

// Raises an OSError in Python. While a library is being loaded this is not possible, because Python's lock is not held.
// A pending call runs in Python's main thread directly after dlopen returns, so the caller's load raises the exception.
bool raise_in_python(const std::string& text) {
  static std::string message;
  using AddPendingCall = int (*)(int (*)(void*), void*);
  const auto add = reinterpret_cast<AddPendingCall>(dlsym(RTLD_DEFAULT, "Py_AddPendingCall"));
  if (add == nullptr || getpid() != gettid()) return false;
  message = text;
  const auto raise = [](void*) {
    using SetString = void (*)(void*, const char*);
    const auto set = reinterpret_cast<SetString>(dlsym(RTLD_DEFAULT, "PyErr_SetString"));
    const auto* type = reinterpret_cast<void**>(dlsym(RTLD_DEFAULT, "PyExc_OSError"));
    if (set == nullptr || type == nullptr) return 0;
    set(*type, message.c_str());
    return -1;
  };
  return add(raise, nullptr) == 0;
}

// Loads the recorder if the process already runs LibTorch: the library was then loaded for its operators.
__attribute__((constructor)) void load_into_running_torch() {
  void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return;
  const LoadFailure failure = load(torch);
  if (!failure) return;
  const std::string text = to_text(*failure);
  if (!raise_in_python(text)) std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const whence::RecorderApi* whence_open_recorder(const char** message,
                                                                                                  const char** remedy) {
  static std::optional<Diagnostic> failure;
  const auto fail = [&](Diagnostic why) {
    failure = std::move(why);
    *message = failure->message.c_str();
    *remedy = failure->remedy.c_str();
    return nullptr;
  };
  if (recorder == nullptr) {
    // Finds LibTorch by name: one that is already loaded, else the one in the folder known when this library was built.
    void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_LOCAL);
    if (torch == nullptr) {
      return fail(refusal("LibTorch could not be loaded: " + std::string(dlerror()),
                          std::string("pip install torch==") + built_for +
                              ", and set TORCH_DIR to the folder that `python -c 'import torch; "
                              "print(torch.__path__[0])'` prints"));
    }
    if (auto why = load(torch)) return fail(std::move(*why));
  }
  const auto api = reinterpret_cast<whence::RecorderEntry>(dlsym(recorder, whence::recorder_entry));
  return api();
}
