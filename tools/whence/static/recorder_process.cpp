// The recorder of a fully static command, which cannot load libraries: another process does the whole work.
//
// The recorder's package brings a command that is linked dynamically, of the same version. It takes the place of this
// process, with the same arguments, as soon as LibTorch is needed: the program of an archive and its weights need not
// be sent from one process to another. Nothing has been written by then: outputs are put in their places at the end.
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
constexpr const char* kMark = "WHENCE_HANDED_OVER";  // set for the other process, which must not hand over again

[[noreturn]] void fail(const std::string& message, const std::string& remedy) {
  throw Error(Code::needs_libtorch, message, remedy, Place{.stage = "load recorder"});
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Fails with the two lines of $WHENCE_RECORDER_MISSING, set by the Python package: why no recorder fits, and what
// helps.
[[noreturn]] void fail_without_recorder() {
  const std::string said = variable("WHENCE_RECORDER_MISSING");
  const std::size_t end = said.find('\n');
  if (end == std::string::npos) {
    fail("this needs LibTorch, and no recorder is installed for it", "pip install whence-onnx-recorder torch");
  }
  fail("this needs LibTorch, and " + said.substr(0, end), said.substr(end + 1));
}

// $WHENCE_RECORDER, else lib/ beside the folder of the command, as for a command that loads the library itself.
fs::path recorder_library() {
  std::error_code ignored;
  const fs::path given = variable("WHENCE_RECORDER");
  if (!given.empty() && !fs::exists(given, ignored)) {
    fail("WHENCE_RECORDER names a file that does not exist: " + given.string(), "unset it, or correct it");
  }
  if (!given.empty() && given.filename() != kLibrary) {
    fail("WHENCE_RECORDER names no recorder: " + given.string(),
         std::string("unset it, or name ") + kLibrary + " of whence-onnx-recorder");
  }
  if (!given.empty()) return fs::absolute(given);
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path beside = own.parent_path().parent_path() / "lib" / kLibrary;
  if (own.empty() || !fs::exists(beside, ignored)) fail_without_recorder();
  return beside;
}

// The command that stands beside the library: DIR/bin/whence for DIR/lib/libwhence_recorder.so.
fs::path recorder_command() {
  const fs::path command = recorder_library().parent_path().parent_path() / "bin" / "whence";
  std::error_code ignored;
  if (!variable(kMark).empty() || !fs::exists(command, ignored)) {
    fail("no command that loads the recorder: " + command.string(),
         "install command and recorder together: pip install --force-reinstall whence-onnx whence-onnx-recorder");
  }
  return command;
}

// The arguments of this process as it was started, the command's name first.
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
      throw Error(Code::missing_file, "no such file", "name the library that defines them",
                  Place{.file = library, .stage = "load operators"});
  }
  if (!libraries.empty()) hand_over();
}

}  // namespace whence::app
