// The interface between the command and the recorder library, which is loaded only when LibTorch is needed. Both are
// built together; `abi`, a digest of their shared headers, detects a library of another build.
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

// An example input to generate: 'input_ids=int64[1,16]<30522'. Values are drawn from [low, high) with a fixed seed. By
// default integers are 0 or 1, bool is random, and floating-point numbers have a normal distribution.
struct InputSpec {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> dims;
  std::optional<double> low, high;
};

// A dynamic axis of --dynamic 'input_ids:0=batch,1=seq'. A size may depend on another: 'x:0=2*batch+1'.
struct DynamicAxis {
  std::string input;  // an argument of forward, or its name in --input-names
  int axis = 0;
  std::string symbol;
  std::int64_t times = 1, plus = 0;  // the length is times * symbol + plus
  std::vector<std::string> parts;    // "past" and "seq" of "past+seq": the length is their sum if both are axis sizes

  bool derived() const { return times != 1 || plus != 0; }
};

struct ReadOptions {
  std::string path;               // the TorchScript archive
  std::string inputs_file;        // torch-saved tensor, tuple or dict, or .npz; empty if there is none
  std::vector<InputSpec> inputs;  // inputs to generate, by name or in order
  std::vector<DynamicAxis> dynamic;
  std::vector<std::string> input_names;  // new names of the graph's inputs, which dynamic axes may use
  bool run = true;                       // run example inputs: the user's, or inputs with the shapes of the trace
  bool digests = false;                  // compute digests of the parameters and of the archive
  bool texts = true;                     // read the text of each fx node of a torch.export archive
  std::uint64_t seed = 0;
  // The dtype of floating-point numbers that a script computes from integers: 3 / 2 (torch.set_default_dtype). Archives
  // do not store it.
  DType default_dtype = DType::float32;
  // Set while LibTorch reads the archive, so that a signal handler can attribute a crash to LibTorch.
  volatile std::sig_atomic_t* reading = nullptr;
};

// A call of an operator that ATen implements with other operators. `call` reads inputs 0, 1, ..., which are generated
// with these dtypes and sizes and random content.
struct CompositeCall {
  Node call;
  std::vector<Type> inputs;
  std::uint64_t seed = 0;
  bool (*convertible)(const std::string& key) = nullptr;  // true for an operator ("aten::add.Tensor") to keep as it is
};

struct RecorderApi {
  const char* abi;
  const char* torch_version;
  // Fills `program`. Returns false if diagnostics contain an error. Never throws.
  bool (*read_torchscript)(const ReadOptions& options, Program& program, Diagnostics& diagnostics);
  // Traces the operator into the body of a program with its inputs, constants and outputs. Returns false if diagnostics
  // contain an error, or, without diagnostics, if the operator is not a composite. Never throws.
  bool (*trace_composite)(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);
  // Lists every operator schema of LibTorch's dispatcher, for the check of our tables.
  void (*operator_schemas)(std::vector<std::string>& schemas);
};

// The entry point of libwhence_recorder.so. Loads LibTorch and libwhence_recorder_torch.so. Returns null, with message
// and remedy, if LibTorch is missing or is not the version that the recorder was built for.
inline constexpr const char* open_recorder = "whence_open_recorder";
using OpenRecorder = const RecorderApi* (*)(const char** message, const char** remedy);

// The entry point of libwhence_recorder_torch.so, which open_recorder calls.
inline constexpr const char* recorder_entry = "whence_recorder";
using RecorderEntry = const RecorderApi* (*)();

}  // namespace whence
