// Signal handlers. They only make system calls, and print messages that were made before.
#include "tools/whence/crashes.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "annotator/app/recorder_library.h"
#include "schema/files/temporary_names.h"
#include "schema/result.h"

namespace whence {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

constexpr std::array kSignals = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
constexpr std::array kStops = {SIGHUP, SIGINT, SIGTERM};  // sent by the user or the system to end the command

// Texts that are made at the start, because a handler must not allocate memory.
struct Messages {
  std::string defect, libtorch, file_changed;
};
Messages messages;
int message_fd = STDERR_FILENO;

// A separate stack for the handler: after a stack overflow the normal one has no space left.
alignas(16) std::array<std::byte, 32768> handler_stack;

std::string line(const Diagnostic& diagnostic, bool json) {
  if (json) return "{\"diagnostics\": [" + to_json(diagnostic) + "]}\n";
  return (::isatty(STDERR_FILENO) != 0 ? "\n" : "") + to_text(diagnostic) + "\n";  // starts below a progress line
}

Messages make_messages(bool json) {
  const auto error = [&](Code code, const char* message, const char* remedy) {
    return line({code, Severity::error, message, {}, remedy, 1, {}}, json);
  };
  return {
      error(Code::internal, "whence crashed; its output files were not changed",
            "please report this with the command line and the file"),
      error(Code::libtorch_crash, "LibTorch crashed while it read the archive; no file was written",
            "check whether torch.jit.load reads it in Python; if it does, please report this, otherwise save the model "
            "again"),
      error(Code::file_changed, "an input was truncated or became unreadable while it was read",
            "keep the inputs unchanged until the command has ended, and run it again"),
  };
}

void write_message(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(message_fd, text.data(), text.size());
}

std::uintptr_t hexadecimal(const char*& at) {
  std::uintptr_t number = 0;
  for (;; ++at) {
    const char digit = *at;
    if (digit >= '0' && digit <= '9') {
      number = number * 16 + static_cast<std::uintptr_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      number = number * 16 + static_cast<std::uintptr_t>(digit - 'a' + 10);
    } else {
      return number;
    }
  }
}

// Returns true if a line of /proc/self/maps, "7f00-7f10 r--p 00000000 fe:00 1234   /path", maps a file as data at
// `address`.
bool is_data_of_file(const char* line, std::uintptr_t address) {
  const std::uintptr_t begin = hexadecimal(line);
  if (*line++ != '-') return false;
  const std::uintptr_t end = hexadecimal(line);
  const bool executable = line[0] == ' ' && line[3] == 'x';
  return begin <= address && address < end && !executable && std::string_view(line).find('/') != std::string_view::npos;
}

// Returns true if `address` is in a mapped file. Uses only system calls, as a signal handler must.
bool in_mapped_file(const void* address) {
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 512> line{};  // the truncated part of a longer line belongs to the path
  std::size_t length = 0;
  bool found = false;
  char letter = 0;
  while (!found && ::read(fd, &letter, 1) == 1) {
    if (letter != '\n') {
      if (length + 1 < line.size()) line[length++] = letter;
      continue;
    }
    line[length] = '\0';
    found = is_data_of_file(line.data(), reinterpret_cast<std::uintptr_t>(address));
    length = 0;
  }
  ::close(fd);
  return found;
}

// Returns true for a signal that another process sent. It is not caused by the running code.
bool was_sent(const siginfo_t& info) { return info.si_code <= 0 && info.si_pid != ::getpid(); }

void end(int signal, siginfo_t* info, void*) {
  remove_temporaries();
  if (app::reading_archive != 0 && !was_sent(*info)) {
    write_message(messages.libtorch);
    ::_exit(static_cast<int>(ExitCode::malformed));
  }
  if (signal == SIGBUS && info->si_code == BUS_ADRERR && in_mapped_file(info->si_addr)) {
    write_message(messages.file_changed);
    ::_exit(static_cast<int>(ExitCode::malformed));
  }
  write_message(messages.defect);
  // SA_RESETHAND has removed this handler, so the signal ends the process when the handler returns.
  ::raise(signal);
}

// Removes temporary files. The raised signal ends the process when the handler returns.
void stop(int signal) {
  if (postpone_stop(signal)) return;
  std::signal(signal, SIG_DFL);
  remove_temporaries();
  ::raise(signal);
}

void clean_up_when_stopped() {
  struct sigaction action {};
  action.sa_handler = stop;
  for (const int signal : kStops) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);  // nohup ignores SIGHUP
  }
}

}  // namespace

void report_crashes(bool json) {
  clean_up_when_stopped();
  if (sanitized) return;
  messages = make_messages(json);
  message_fd = json ? STDOUT_FILENO : STDERR_FILENO;
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = end;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
}

}  // namespace whence
