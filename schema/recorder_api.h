// The boundary between the command and the recorder library, which is loaded only when LibTorch is needed.
// Both sides are built together; `abi`, a digest of what they share, guards against a library of another build.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence {

// One example input to make: 'input_ids=int64[1,16]<30522'. Values are drawn from [low, high) with a fixed seed:
// integers default to {0, 1}, bool to {false, true}, floating to a normal distribution.
struct InputSpec {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims;
  std::optional<double> low, high;
};

// 'input_ids:0=batch,1=seq'; the size may follow from another: 'x:0=2*batch+1'.
struct DynamicAxis {
  std::string input;  // an argument of forward, or what --input-names calls it
  int axis = 0;
  std::string symbol;
  std::int64_t times = 1, plus = 0;  // the axis is times * symbol + plus long
  std::vector<std::string>
      parts;  // "past" and "seq" of "past+seq": where these are sizes of axes, the axis is as long as both

  bool derived() const { return times != 1 || plus != 0; }
};

struct ReadOptions {
  std::string path;               // the TorchScript archive
  std::string inputs_file;        // torch-saved tensor, tuple or dict, or .npz; empty when not given
  std::vector<InputSpec> inputs;  // made inputs, by name or in order
  std::vector<DynamicAxis> dynamic;
  std::vector<std::string> input_names;  // new names of the graph's inputs, which dynamic axes may go by
  bool run = true;                       // run example inputs (given ones, or shaped as the trace recorded them)
  bool digests = false;                  // compute those of parameters and of the archive
  bool texts = true;                     // read the text of each fx node of a torch.export archive
  std::uint64_t seed = 0;
  // The dtype of floating numbers that a script makes of others: 3 / 2 (torch.set_default_dtype). An archive does not
  // say it.
  DType default_dtype = DType::float32;
  // Set while LibTorch reads the archive, for a process that handles signals: a crash there is LibTorch's.
  volatile std::sig_atomic_t* reading = nullptr;
};

// One call of an operator that ATen defines by other operators: `call` reads inputs 0, 1, ...; each is made anew, with
// these dtypes and sizes and random content.
struct CompositeCall {
  Node call;
  std::vector<Type> inputs;
  std::uint64_t seed = 0;
  bool (*convertible)(const std::string& key) = nullptr;  // "aten::add.Tensor": needs no opening
};

struct RecorderApi {
  const char* abi;
  const char* torch_version;
  // Fills `program`; false when diagnostics hold an error. Never throws.
  bool (*read_torchscript)(const ReadOptions& options, Program& program, Diagnostics& diagnostics);
  // Traces the operator that `call` calls into the body of a program with its inputs, constants and outputs. Returns
  // false when diagnostics hold an error, and when the operator is not a composite: then there are none. Never throws.
  bool (*trace_composite)(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);
  // Every operator schema that LibTorch's dispatcher knows, for the table check.
  void (*operator_schemas)(std::vector<std::string>& schemas);
};

// The function that the command finds in libwhence_recorder.so. It loads LibTorch and libwhence_recorder_torch.so. It
// returns null, with message and remedy, if there is no LibTorch or another version than the recorder was built for.
inline constexpr const char* open_recorder = "whence_open_recorder";
using OpenRecorder = const RecorderApi* (*)(const char** message, const char** remedy);

// The function that open_recorder finds in libwhence_recorder_torch.so.
inline constexpr const char* recorder_entry = "whence_recorder";
using RecorderEntry = const RecorderApi* (*)();

}  // namespace whence
