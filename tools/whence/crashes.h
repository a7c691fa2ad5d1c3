// Reports a crash before its signal ends the process. A crash is a defect in whence and is reported as one, never as
// the fault of a file; files are written aside and renamed at the end, so none is left half written.
#pragma once

#include <csignal>

namespace whence {

// From now on SIGABRT, SIGBUS, SIGFPE, SIGILL and SIGSEGV print E0901 and are raised again: the status is 128 + n in a
// shell, and the system makes a core dump where it makes one. Two signals are not defects in whence, and end in an exit
// code:
//   E0208  LibTorch crashed while it read an archive (app::reading_archive)
//   E0209  a mapped input became shorter while it was read (SIGBUS)
// SIGHUP, SIGINT and SIGTERM end the process as they do without this, but leave no half-written file behind: while
// files get their names, the signal waits. `json`: the message is a JSON object on standard output. Not in builds with
// sanitizers, which report better.
void report_crashes(bool json);

}  // namespace whence
