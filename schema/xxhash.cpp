// Compiles the functions of xxhash once, so that programs that link this library do not need libxxhash.
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>
