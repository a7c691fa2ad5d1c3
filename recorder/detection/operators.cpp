// Registers kernels.h under torchvision's names and schemas.
#include "recorder/detection/operators.h"

#include <torch/library.h>

#include "recorder/detection/kernels.h"

namespace whence::recorder::detection {

namespace {

// torchvision's own schemas, which the calls in archives match.
constexpr const char* nms_schema = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor";
constexpr const char* roi_align_schema =
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio, bool aligned) -> Tensor";
constexpr const char* roi_pool_schema =
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, "
    "Tensor)";
constexpr const char* ps_roi_align_schema =
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio) -> (Tensor, Tensor)";
constexpr const char* deform_conv2d_schema =
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
    "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask) -> Tensor";
// Scripted torchvision detectors contain it in a branch that only rotated boxes take.
constexpr const char* box_iou_rotated_schema = "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor";

at::Tensor box_iou_rotated(const at::Tensor&, const at::Tensor&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "torchvision::box_iou_rotated is not supported: ONNX has no operator for it");
}

}  // namespace

struct DetectionOperators::Registered {
  torch::Library library{torch::Library::FRAGMENT, "torchvision", std::nullopt, __FILE__, __LINE__};
};

DetectionOperators::DetectionOperators() {
  if (c10::Dispatcher::singleton().findSchema({"torchvision::nms", ""})) return;
  registered_ = std::make_unique<Registered>();
  torch::Library& library = registered_->library;
  const auto add = [&](const char* schema, auto kernel) {
    library.def(schema);
    const std::string text = schema;
    library.impl(text.substr(0, text.find('(')).c_str(), torch::dispatch(c10::DispatchKey::CPU, kernel));
  };
  add(nms_schema, TORCH_FN(nms));
  add(roi_align_schema, TORCH_FN(roi_align));
  add(roi_pool_schema, TORCH_FN(roi_pool));
  add(ps_roi_align_schema, TORCH_FN(ps_roi_align));
  add(deform_conv2d_schema, TORCH_FN(deform_conv2d));
  add(box_iou_rotated_schema, TORCH_FN(box_iou_rotated));
}

DetectionOperators::~DetectionOperators() = default;

}  // namespace whence::recorder::detection
