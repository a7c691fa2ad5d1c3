// The functions of xxhash, compiled here once, so that nothing that links this library needs libxxhash as well.
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>
