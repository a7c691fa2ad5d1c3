// The last line of defence against a file that contradicts itself in a way that nobody foresaw: whence is built with
// the standard library's checks of indices, and one that fails ends in a message and an exit code, not in a dead
// process.
#pragma once

namespace whence {

// SIGABRT, SIGFPE, SIGSEGV and SIGBUS end in E0204 and the exit code of malformed input. Files are written aside and
// renamed at the end, so none is left half written in its place. Not in builds with sanitizers, which report better.
void report_crashes();

}  // namespace whence
