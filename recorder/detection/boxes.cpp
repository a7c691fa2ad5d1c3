// nms: non-maximum suppression keeps the box with the best score among boxes that overlap.
#include "recorder/detection/kernels.h"

namespace whence::recorder::detection {

at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  TORCH_CHECK(dets.dim() == 2 && dets.size(1) == 4, "nms: boxes must be [K, 4], got ", dets.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == dets.size(0), "nms: expected a score for each box, got ",
              scores.sizes());
  const auto wide = dets.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor boxes = dets.to(wide).contiguous();
  const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous();
  const auto ranked_boxes = order.accessor<std::int64_t, 1>();
  std::vector<std::int64_t> kept;
  AT_DISPATCH_FLOATING_TYPES(wide, "nms", [&] {
    const auto box = boxes.accessor<scalar_t, 2>();
    const auto area = [&](std::int64_t i) { return (box[i][2] - box[i][0]) * (box[i][3] - box[i][1]); };
    const auto side = [&](std::int64_t i, std::int64_t j, int axis) {
      return std::max<scalar_t>(0, std::min(box[i][axis + 2], box[j][axis + 2]) - std::max(box[i][axis], box[j][axis]));
    };
    for (std::int64_t rank = 0; rank < ranked_boxes.size(0); ++rank) {
      const std::int64_t j = ranked_boxes[rank];
      const bool covered = std::any_of(kept.begin(), kept.end(), [&](std::int64_t i) {
        const scalar_t common = side(i, j, 0) * side(i, j, 1);
        return common / (area(i) + area(j) - common) > iou_threshold;
      });
      if (!covered) kept.push_back(j);
    }
  });
  return at::tensor(kept, at::kLong);
}

}  // namespace whence::recorder::detection
