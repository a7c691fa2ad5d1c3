// Sets RLIMIT_DATA to the machine's memory and swap.
#include "tools/whence/memory_limit.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace whence {

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers map much more memory than they use
  struct sysinfo machine{};
  struct rlimit limit{};
  if (::sysinfo(&machine) != 0 || ::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const rlim_t all = (static_cast<rlim_t>(machine.totalram) + machine.totalswap) * machine.mem_unit;
  if (all >= limit.rlim_cur) return;
  limit.rlim_cur = all;
  ::setrlimit(RLIMIT_DATA, &limit);
#endif
}

}  // namespace whence
