// Between two steps that need much memory each: what the first one freed goes back to the system, which mimalloc does
// by itself only when it comes by the same place again. Another malloc is left alone.
#pragma once

extern "C" [[gnu::weak]] void mi_collect(bool force);

namespace whence {

inline void give_back_freed_memory() {
  if (mi_collect != nullptr) mi_collect(/*force=*/true);
}

}  // namespace whence
