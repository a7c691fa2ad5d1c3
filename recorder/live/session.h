// The recording of this process, at most one at a time: every trace made between start and stop becomes a sidecar.
//
// It uses only LibTorch's public hooks. A callback after every outermost operation (at::RecordFunction) reads the nodes
// that the tracer added to its graph. PyTorch's own hook for source lines (tracer::setRecordSourceLocation) stays: it
// has no getter, so it could not be chained, and the lines that it writes on each node suffice. The end of a trace is
// noticed when the tracer releases its function that names variables, which the recording wraps. Without a recording
// there is no callback and no cost.
//
// Crash safety: while a trace runs, the file is repeatedly written beside the target and renamed (which takes at most a
// fiftieth of the time), and states that it is not complete until it is.
#pragma once

#include <string>

namespace whence::recorder::live {

// Throws Error: recording_state (one is running, here or in another process to the same file), cannot_write.
void start(const std::string& path);

// Reports the qualified name of the module that the running trace of this thread calls next. torch.onnx.export gives
// its trace only the end of that name, so a caller that knows the modules reports every call, or none. Without a
// recording or a trace it does nothing.
void name_call(const std::string& path);

// Ends the recording and writes: the first trace to `path`, further ones of other programs beside it
// ("m.2.whence.json"). JSON: {"files": [{"file", "operations", "modules", "complete"}], "diagnostics": [...]}. Throws
// Error: recording_state (none is running, or nothing was traced), cannot_write.
std::string stop();

// JSON: {"recording": bool, "file": ..., "traces": n, "operations": n}.
std::string status();

}  // namespace whence::recorder::live
