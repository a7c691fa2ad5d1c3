// Finds and loads libwhence_recorder.so, and LibTorch if an environment variable names its folder.
//
// This is a separate object file: a fully static command, which cannot load libraries, defines these functions itself
// (tools/whence/static/recorder_process.cpp).
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include <dlfcn.h>

#include "annotator/app/recorder_library.h"
#include "recorder_abi.h"
#include "schema/result.h"

namespace whence::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "install PyTorch, and set TORCH_DIR to the folder that `python -c 'import torch; print(torch.__path__[0])'` prints";

[[noreturn]] void fail_to_load(const std::string& message, const std::string& remedy = kRemedy) {
  throw Error(Code::needs_libtorch, message, remedy, Place{.stage = "load recorder"});
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path library_path() {
  if (const auto given = environment("WHENCE_RECORDER")) {
    if (!path_exists(*given))
      fail_to_load("WHENCE_RECORDER names a file that does not exist: " + *given, "unset or correct it");
    return *given;
  }
  const fs::path command = fs::read_symlink("/proc/self/exe");
  const fs::path library = command.parent_path().parent_path() / "lib" / "libwhence_recorder.so";
  if (!path_exists(library)) {
    fail_to_load(
        "the recorder library is not installed: " + library.string(),
        "install whence with the recorder (cmake -DWHENCE_RECORDER=ON), or set WHENCE_RECORDER to the library");
  }
  return library;
}

// Loads LibTorch's libraries from the folder; the recorder then uses these, whatever its run path is.
void preload_torch(const std::string& variable, const fs::path& torch) {
  fs::path folder = torch / "lib";
  if (!path_exists(folder / "libtorch_cpu.so")) folder = torch;
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libtorch.so"}) {
    const fs::path library = folder / name;
    if (!path_exists(library)) fail_to_load(variable + " holds no LibTorch: " + library.string() + " does not exist");
    if (dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      fail_to_load("LibTorch could not be loaded: " + std::string(dlerror()));
    }
  }
}

void preload_torch_when_named() {
  for (const char* variable : {"WHENCE_TORCH_DIR", "TORCH_DIR"}) {
    if (const auto folder = environment(variable)) return preload_torch(variable, *folder);
  }
}

const RecorderApi* load() {
  const fs::path path = library_path();
  // LibTorch's OpenMP threads would spin between the many small operations of a run; passive waiting halves CPU time.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) fail_to_load("the recorder could not be loaded: " + std::string(dlerror()));
  preload_torch_when_named();
  const auto open = reinterpret_cast<OpenRecorder>(dlsym(library, open_recorder));
  const char *message = "", *remedy = "";
  const RecorderApi* api = open != nullptr ? open(&message, &remedy) : nullptr;
  if (open != nullptr && api == nullptr) fail_to_load(message, remedy);
  if (open == nullptr || std::strcmp(api->abi, recorder_abi) != 0) {
    fail_to_load("the recorder is from another build of whence: " + path.string(),
                 "install command and recorder together");
  }
  return api;
}

}  // namespace

const RecorderApi& recorder() {
  static const RecorderApi* const api = load();
  return *api;
}

void load_operators(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    const Place place{.file = library, .stage = "load operators"};
    if (!path_exists(library))
      throw Error(Code::missing_file, "no such file: " + library, "pass the library that defines the operators", place);
    recorder();
    // An absolute path prevents a search by name.
    if (dlopen(fs::absolute(library).c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) continue;
    throw Error(Code::wrong_kind, "this library cannot be loaded: " + std::string(dlerror()),
                "build it against LibTorch " + std::string(recorder().torch_version) +
                    " and without Python: link torch, not torch_python",
                place);
  }
}

}  // namespace whence::app
