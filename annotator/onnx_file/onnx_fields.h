// Field numbers of onnx.proto (ONNX 1.20), by message, for the fields that whence itself reads and writes.
#pragma once

#include <cstdint>

namespace whence::onnx_file::proto {

namespace model {
inline constexpr std::uint32_t ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, opset_import = 8,
                               metadata_props = 14, functions = 25;
}
namespace entry {  // StringStringEntryProto
inline constexpr std::uint32_t key = 1, value = 2;
}
namespace opset {
inline constexpr std::uint32_t domain = 1, version = 2;
}
namespace graph {
inline constexpr std::uint32_t node = 1, name = 2, initializer = 5, input = 11, output = 12, value_info = 13,
                               sparse_initializer = 15, metadata_props = 16;
}
namespace function {
inline constexpr std::uint32_t name = 1, input = 4, output = 5, attribute = 6, node = 7, opset_import = 9, domain = 10,
                               attribute_proto = 11, value_info = 12, overload = 13, metadata_props = 14;
}
namespace node {
inline constexpr std::uint32_t input = 1, output = 2, name = 3, op_type = 4, attribute = 5, doc_string = 6, domain = 7,
                               overload = 8, metadata_props = 9;
}
namespace attribute {
inline constexpr std::uint32_t name = 1, f = 2, i = 3, s = 4, t = 5, g = 6, floats = 7, ints = 8, strings = 9,
                               tensors = 10, graphs = 11, type = 20, ref_attr_name = 21, sparse_tensor = 22,
                               sparse_tensors = 23;
}
namespace tensor {
inline constexpr std::uint32_t dims = 1, data_type = 2, float_data = 4, int32_data = 5, int64_data = 7, name = 8,
                               raw_data = 9, double_data = 10, uint64_data = 11, external_data = 13, data_location = 14,
                               metadata_props = 16;
}
namespace sparse_tensor {
inline constexpr std::uint32_t values = 1, indices = 2;
}
namespace value_info {
inline constexpr std::uint32_t name = 1, type = 2, metadata_props = 4;
}

namespace type {  // TypeProto and the messages in a tensor's type
enum : std::uint32_t { tensor = 1, shape = 2, dim = 1, dim_value = 1 };
}
}  // namespace whence::onnx_file::proto
