"""splitmix64 as specified in docs/values.md, which selects the elements of both kinds of sketches."""


def splitmix(i: int) -> int:
    mask = 2**64 - 1
    z = (i + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31
