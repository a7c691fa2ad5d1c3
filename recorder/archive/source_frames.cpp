#include "recorder/archive/source_frames.h"

#include "recorder/base/live_mark.h"
#include "schema/parse_number.h"
#include "schema/result.h"

namespace whence::recorder::archive {

namespace {

// Parses "path/modeling_bert.py(215): forward", a frame as tracing writes it, one per line.
std::optional<Frame> parse_trace_line(std::string_view line) {
  const std::size_t colon = line.rfind("): ");
  if (colon == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.rfind('(', colon);
  if (open == std::string_view::npos) return std::nullopt;
  Frame frame;
  const auto number = parse_number<decltype(frame.line)>(line.substr(open + 1, colon - open - 1));
  if (!number) return std::nullopt;
  frame.line = *number;
  frame.file = std::string(line.substr(0, open));
  frame.function = std::string(line.substr(colon + 3));
  return frame;
}

// True for PyTorch's own calls between one module's forward and the next; they are not part of the model.
bool is_machinery(const Frame& frame) {
  return frame.file.ends_with("torch/nn/modules/module.py") &&
         (frame.function == "_slow_forward" || frame.function == "_call_impl" ||
          frame.function == "_wrapped_call_impl");
}

Stack parse_trace(std::string_view text) {
  Stack stack;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::optional<Frame> frame = parse_trace_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!frame) continue;
    if (frame->file.ends_with("torch/jit/_trace.py")) break;  // the rest is the code that called trace
    if (!is_machinery(*frame)) stack.push_back(std::move(*frame));
  }
  return stack;
}

// Returns the Python source of a node of a loaded archive; none if only the archive's generated code is known.
std::optional<torch::jit::SourceRange> python_source(const torch::jit::Node& node) {
  torch::jit::SourceRange range = node.sourceRange();
  try {
    if (auto original = range.findSourceRangeThatGenerated()) return original;  // unpickled on first use
  } catch (const std::exception&) {
    throw Error(Code::corrupt_file, "the archive's record of source lines cannot be read", "save the model again",
                {.stage = "read"});
  }
  const auto place = range.file_line_col();
  if (!place || std::get<0>(*place).rfind("code/", 0) == 0) return std::nullopt;
  return range;
}

bool is_trace_text(std::string_view text) {
  return text == inferred_mark || text == enclosing_mark ||
         parse_trace_line(text.substr(0, text.find('\n'))).has_value();
}

std::optional<Frame> scripted_frame(const torch::jit::SourceRange& range, const std::string& function) {
  const auto place = range.file_line_col();
  if (!place || std::get<0>(*place).empty()) return std::nullopt;  // the tracer inserts conversions without a source
  return Frame{std::get<0>(*place), static_cast<std::int32_t>(std::get<1>(*place)), function};
}

}  // namespace

StackId SourceFrames::stack_of(const torch::jit::Node& node, const std::string& function, const Stack& callers) {
  const auto range = python_source(node);
  if (!range || !range->source()) return none_id;
  if (is_trace_text(range->source()->text_str().str())) return traced_stack(*range);
  const auto frame = scripted_frame(*range, function);
  if (!frame) return none_id;
  Stack stack{*frame};
  stack.insert(stack.end(), callers.begin(), callers.end());
  return intern(std::move(stack));
}

ScopeBasis SourceFrames::basis(const torch::jit::Node& node) {
  const auto range = python_source(node);
  if (!range || !range->source()) return ScopeBasis::observed;
  const std::string text = range->source()->text_str().str();
  if (text.ends_with(inferred_mark)) return ScopeBasis::inferred;
  return text.ends_with(enclosing_mark) ? ScopeBasis::enclosing : ScopeBasis::observed;
}

StackId SourceFrames::traced_stack(const torch::jit::SourceRange& range) {
  if (!range.source()) return none_id;
  std::string text = range.source()->text_str().str();
  if (!is_trace_text(text)) return none_id;
  const auto known = by_text_.find(text);
  if (known != by_text_.end()) return known->second;
  const StackId id = intern(parse_trace(text));
  by_text_.emplace(std::move(text), id);
  return id;
}

std::optional<Frame> SourceFrames::call_site(const torch::jit::Node& node, const std::string& function) {
  const auto range = python_source(node);
  if (!range || !range->source() || is_trace_text(range->source()->text_str().str())) return std::nullopt;
  return scripted_frame(*range, function);
}

StackId SourceFrames::intern(Stack stack) {
  if (stack.empty()) return none_id;
  std::string key;
  for (const Frame& frame : stack) key += frame.file + ':' + std::to_string(frame.line) + ' ' + frame.function + '\n';
  const auto [known, fresh] = by_text_.emplace("\x01" + key, StackId(program_.stacks.size()));
  if (fresh) program_.stacks.push_back(std::move(stack));
  return known->second;
}

}  // namespace whence::recorder::archive
