// libwhence_recorder.so: the library that the command and torch.ops.load_library load. It does not link LibTorch, so it
// loads beside any version, and loads libwhence_recorder_torch.so only if that was built for the LibTorch that runs:
// symbols and structures of LibTorch change between versions, so it must not be used before the versions are compared.
//
// In a process of Python that has imported torch, loading this library is enough: the operators `whence::start`,
// `stop` and `status` exist afterwards, or the load fails with an OSError that says what to do. The command calls
// whence_open_recorder() instead.
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

// The file of a library that is loaded.
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

// Returns "2.13.0" from LibTorch's stable C interface, which gives the version's parts from the highest byte on. Empty
// for LibTorch before 2.7, which lacks the function.
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

// "2.13" of "2.13.0": PyTorch keeps symbols and structures within a minor version.
std::string minor_version(const std::string& version) {
  const std::size_t major = version.find('.');
  return major == std::string::npos ? version : version.substr(0, version.find('.', major + 1));
}

std::optional<Diagnostic> refuse_other_version(void* torch) {
  const std::string running = version_of(torch);
  if (minor_version(running) == minor_version(built_for)) return std::nullopt;
  const fs::path folder = file_of(torch).parent_path().parent_path();
  const std::string named = running.empty() ? "one before 2.7" : running;
  return refusal("this recorder was built for PyTorch " + std::string(built_for) + ", and the PyTorch in " +
                     folder.string() + " is " + named,
                 "whence recorder build, in the environment of that PyTorch; in whence's source `TORCH_DIR=" +
                     folder.string() + " make build`; or pip install torch==" + built_for);
}

using Loaded = std::optional<Diagnostic>;  // why it could not be loaded

void* recorder = nullptr;

Loaded load(void* torch) {
  if (auto other = refuse_other_version(torch)) return other;
  const fs::path library = own_folder() / "libwhence_recorder_torch.so";
  // Local: LibTorch's own copies of protobuf and ONNX must not meet the command's.
  recorder = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (recorder != nullptr) return std::nullopt;
  return refusal("the recorder could not be loaded: " + std::string(dlerror()), "whence recorder build");
}

// An exception of Python cannot be raised while a library is being loaded, because Python's lock is not held. A pending
// call runs in Python's main thread as soon as dlopen has returned, so the exception is raised at the caller's load.
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

// The plugin's case: if the process already runs LibTorch, the library was loaded for its operators.
__attribute__((constructor)) void load_into_running_torch() {
  void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return;
  const Loaded failure = load(torch);
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
    // By its name, which also finds one that is loaded already; else where it was when this library was built.
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
