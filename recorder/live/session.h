// The recording of this process, at most one at a time: every trace made between start and stop becomes a sidecar.
//
// Uses only LibTorch's public hooks. A callback after every outermost operation (at::RecordFunction) reads the nodes
// that the tracer added to its graph. PyTorch's own hook for source lines (tracer::setRecordSourceLocation) stays: it
// has no getter, so it could not be chained, and its lines on each node are sufficient. The recording wraps the
// tracer's function that names variables; the trace ends when the tracer releases it. Without a recording there is no
// callback and no cost.
//
// Crash safety: while a trace runs, a partial file is written next to the target and renamed over it, in at most 2 % of
// the time. It is marked as incomplete until the recording ends.
#pragma once

#include <string>

namespace whence::recorder::live {

// Throws Error: recording_state (a recording is running, here or in another process to the same file), cannot_write.
void start(const std::string& path);

// Reports the qualified name of the module that this thread's trace calls next. torch.onnx.export gives its trace only
// the end of the name, so a caller with access to the modules reports every call, or none. Does nothing without a
// recording or a trace.
void name_call(const std::string& path);

// Ends the recording. Writes the first trace to `path`, and traces of other programs next to it ("m.2.whence.json").
// Returns JSON: {"files": [{"file", "operations", "modules", "complete"}], "diagnostics": [...]}. Throws Error:
// recording_state (none is running, or nothing was traced), cannot_write.
std::string stop();

// Returns JSON: {"recording": bool, "file": ..., "traces": n, "operations": n}.
std::string status();

}  // namespace whence::recorder::live
