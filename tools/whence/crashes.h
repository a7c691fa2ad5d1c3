// Reports a crash before its signal ends the process. A crash is a defect in whence and is reported as one, never as a
// problem of a file. Outputs are written to temporary files and renamed at the end, so none remains half written.
#pragma once

#include <csignal>

namespace whence {

// Installs the handlers. SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print E0901 and are raised again: a shell reports
// status 128 + n, and the system may write a core dump. Two cases are not defects in whence, and end with an exit code:
//   E0208  LibTorch crashed while it read an archive (app::reading_archive)
//   E0209  a mapped input was truncated while it was read (SIGBUS)
// SIGHUP, SIGINT and SIGTERM end the process as usual, but temporary files are removed first, and the signal waits
// while files are renamed. If `json`, the message is a JSON object on standard output. Builds with sanitizers keep the
// sanitizers' reports instead.
void report_crashes(bool json);

}  // namespace whence
