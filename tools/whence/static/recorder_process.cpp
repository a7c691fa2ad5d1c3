// The recorder for a fully static command, which cannot load libraries.
//
// The recorder's package contains a dynamically linked command of the same version. As soon as LibTorch is needed, that
// command replaces this process, with the same arguments, so no program or weights are sent between processes. Nothing
// has been written at that point, because outputs are renamed at the end.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "annotator/app/recorder_library.h"
#include "schema/child_process.h"
#include "schema/files/temporary_names.h"
#include "schema/result.h"

namespace whence::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libwhence_recorder.so";
constexpr const char* kMark = "WHENCE_HANDED_OVER";  // set for the other command, which must not be replaced again

[[noreturn]] void fail(const std::string& message, const std::string& remedy) {
  throw Error(Code::needs_libtorch, message, remedy, Place{.stage = "load recorder"});
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Fails with the two lines of $WHENCE_RECORDER_MISSING, which the Python package sets: why no recorder fits, and the
// remedy.
[[noreturn]] void fail_without_recorder() {
  const std::string reason = variable("WHENCE_RECORDER_MISSING");
  const std::size_t end = reason.find('\n');
  if (end == std::string::npos) {
    fail("this needs LibTorch, and no recorder is installed for it", "pip install whence-onnx-recorder torch");
  }
  fail("this needs LibTorch, and " + reason.substr(0, end), reason.substr(end + 1));
}

// Returns $WHENCE_RECORDER, else the library in lib/ next to the command's folder, as for a dynamically linked command.
fs::path recorder_library() {
  std::error_code ignored;
  const fs::path given = variable("WHENCE_RECORDER");
  if (!given.empty() && !fs::exists(given, ignored)) {
    fail("the file in WHENCE_RECORDER does not exist: " + given.string(), "unset it, or correct it");
  }
  if (!given.empty() && given.filename() != kLibrary) {
    fail("the file in WHENCE_RECORDER is not a recorder: " + given.string(),
         std::string("unset it, or set it to ") + kLibrary + " of whence-onnx-recorder");
  }
  if (!given.empty()) return fs::absolute(given);
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = own.parent_path().parent_path() / "lib" / kLibrary;
  if (own.empty() || !fs::exists(installed, ignored)) fail_without_recorder();
  return installed;
}

// Returns the command of the recorder's package: DIR/bin/whence for DIR/lib/libwhence_recorder.so.
fs::path recorder_command() {
  const fs::path command = recorder_library().parent_path().parent_path() / "bin" / "whence";
  std::error_code ignored;
  if (!variable(kMark).empty() || !fs::exists(command, ignored)) {
    fail("no command that loads the recorder: " + command.string(),
         "install command and recorder together: pip install --force-reinstall whence-onnx whence-onnx-recorder");
  }
  return command;
}

// Returns the arguments of this process, starting with the command's name.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return words;
}

[[noreturn]] void hand_over() {
  const fs::path command = recorder_command();
  std::vector<std::string> words = own_arguments();
  setenv(kMark, "1", /*overwrite=*/1);
  remove_temporaries();
  ::execv(command.c_str(), null_terminated(words).data());
  fail("the recorder's command cannot be run: " + command.string() + ": " + std::strerror(errno),
       "pip install --force-reinstall whence-onnx-recorder");
}

}  // namespace

const RecorderApi& recorder() { hand_over(); }

void load_operators(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    std::error_code ignored;
    if (!fs::exists(library, ignored))
      throw Error(Code::missing_file, "no such file: " + library, "pass the library that defines the operators",
                  Place{.file = library, .stage = "load operators"});
  }
  if (!libraries.empty()) hand_over();
}

}  // namespace whence::app
