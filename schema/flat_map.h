// Hash tables with all entries in one array (tsl::robin_map). A graph of 100,000 nodes looks up every name in several
// tables, and the cost is memory access: std::unordered_map fetches a bucket, a node and its neighbours.
//
// Iterators and references are valid until the next insertion.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>
#include <xxhash.h>

namespace whence {

// Allows the lookup of strings by string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }
};

// Mixes the bits: addresses of one type have equal low bits, which select the bucket.
struct AddressHash {
  std::size_t operator()(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15U >> 32U;
  }
};

template <class Key>
inline constexpr bool is_text = std::is_convertible_v<const Key&, std::string_view>;

template <class Key>
using FlatHash = std::conditional_t<is_text<Key>, StringHash,
                                    std::conditional_t<std::is_pointer_v<Key>, AddressHash, std::hash<Key>>>;

// Stores the hash next to each string, so that growing does not read the strings again.
template <class Key, class Content>
using FlatMap =
    tsl::robin_map<Key, Content, FlatHash<Key>, std::equal_to<>, std::allocator<std::pair<Key, Content>>, is_text<Key>>;

template <class Key>
using FlatSet = tsl::robin_set<Key, FlatHash<Key>, std::equal_to<>, std::allocator<Key>, is_text<Key>>;

}  // namespace whence
