// Limits the memory of the process, so that running out of memory is an error and not a kill.
#pragma once

namespace whence {

// Limits the process to the memory of the machine. Running a model may need any amount of memory, for example if a loop
// doubles a tensor. Without a limit, the system would kill this process, or another one, without a message.
void limit_memory();

}  // namespace whence
