#include "tools/whence/crashes.h"

#include <csignal>
#include <string>

#include <unistd.h>

#include "schema/result.h"

namespace whence {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// Made before anything can go wrong: a handler may not allocate.
std::string message;

void end(int) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(static_cast<int>(ExitCode::malformed));
}

}  // namespace

void report_crashes() {
  if (sanitized) return;
  message = "\n" +
            to_text(Diagnostic{Code::corrupt_file,
                               Severity::error,
                               "a file that was given contradicts itself in a way that nobody foresaw",
                               Place{},
                               "write or save the file again; if that does not help, please report this with the "
                               "command line and the file",
                               1,
                               {}}) +
            "\n";
  for (const int signal : {SIGABRT, SIGFPE, SIGSEGV, SIGBUS}) std::signal(signal, end);
}

}  // namespace whence
