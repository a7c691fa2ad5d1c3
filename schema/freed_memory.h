// Controls when mimalloc returns freed memory to the system. Does nothing with another malloc.
#pragma once

extern "C" {
[[gnu::weak]] void mi_collect(bool force);
[[gnu::weak]] void mi_option_set_default(int option, long value);
}

namespace whence {

// Call at the start of a program. By default mimalloc returns pages 25 ms after their last block is freed, which costs
// a twelfth of the time of a match because the next step allocates them again.
inline void delay_memory_release() {
  constexpr int decommit_delay = 15;  // the same number in mimalloc 2.0 and 2.1, under two names
  constexpr long milliseconds = 1000;
  if (mi_option_set_default != nullptr) mi_option_set_default(decommit_delay, milliseconds);
}

// Call between two steps that each need much memory: returns the freed memory of the first step immediately.
inline void release_freed_memory() {
  if (mi_collect != nullptr) mi_collect(/*force=*/true);
}

}  // namespace whence
