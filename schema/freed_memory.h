// When memory that was freed goes back to the system, with mimalloc. Another malloc is left alone.
#pragma once

extern "C" {
[[gnu::weak]] void mi_collect(bool force);
[[gnu::weak]] void mi_option_set_default(int option, long value);
}

namespace whence {

// For the start of a program: mimalloc gives pages back 25 ms after the last block in them is freed, which costs a
// twelfth of the time of a match, for the next step asks for them again.
inline void keep_freed_memory_for_a_while() {
  constexpr int decommit_delay = 15;  // the same number in mimalloc 2.0 and 2.1, under two names
  constexpr long milliseconds = 1000;
  if (mi_option_set_default != nullptr) mi_option_set_default(decommit_delay, milliseconds);
}

// Between two steps that need much memory each: what the first one freed goes back at once.
inline void give_back_freed_memory() {
  if (mi_collect != nullptr) mi_collect(/*force=*/true);
}

}  // namespace whence
