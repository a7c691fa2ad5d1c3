// The recording of this process: whatever is traced between start and stop becomes sidecars. At most one at a time.
//
// It listens through LibTorch's public hooks alone. A callback after every outermost operation (at::RecordFunction)
// looks at what the tracer added to its graph; PyTorch's own hook for source lines (tracer::setRecordSourceLocation)
// stays, because it has no getter to chain to, and what it writes on each node is all that is needed. The end of a
// trace is seen by what the tracer lets go of then: the function that names variables, which we wrap. Without a
// recording there is no callback, and nothing costs anything.
//
// Crash safety: the file is written beside the target and renamed, again and again while a trace runs (at most a
// fiftieth of the time), and says that it is not complete until it is.
#pragma once

#include <string>

namespace whence::recorder::live {

// Throws Error: recording_state (one is running, here or in another process to the same file), cannot_write.
void start(const std::string& path);

// Ends the recording and writes: the first trace to `path`, further ones of other programs beside it
// ("m.2.whence.json"). JSON: {"files": [{"file", "operations", "modules", "complete"}], "diagnostics": [...]}. Throws
// Error: recording_state (none is running, or nothing was traced), cannot_write.
std::string stop();

// JSON: {"recording": bool, "file": ..., "traces": n, "operations": n}.
std::string status();

}  // namespace whence::recorder::live
