// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/dense.hpp"

#include "engine/kernels/dense_panels.hpp"
#include "engine/kernels/dense_rows.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

bool has_rows(DenseShape s) {
  return s.outputs <= kDenseRowsMax;
}

void forward(const DenseForwardArgs& a) {
  if (!has_rows(a.shape)) {
    panel_forward(a);
  } else if (a.unit_begin < a.unit_end) {
    rows_forward(a);
  }
}

void add_parts(const DenseAddPartsArgs& a) {
  for (std::int64_t oc = 0; oc < a.outputs; oc += kBlock) {
    const std::int64_t lanes = a.outputs - oc;
    const V8 bias = a.bias != nullptr ? load_some(a.bias + oc, lanes) : V8{};
    for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
      const float* part = a.sums + n * a.sums_stride + oc;
      V8 sum = bias;
      for (std::int64_t i = 0; i < a.parts; ++i, part += a.outputs) sum += load_some(part, lanes);
      store_some(a.dst + n * a.dst_stride + oc, a.relu ? relu(sum) : sum, lanes);
    }
  }
}

void backward_data(const DenseBackwardDataArgs& a) {
  if (has_rows(a.shape)) {
    rows_backward_data(a);
  } else {
    panel_backward_data(a);
  }
}

void backward_weights(const DenseBackwardWeightsArgs& a) {
  if (!has_rows(a.shape)) {
    panel_backward_weights(a);
  } else if (a.unit_begin < a.unit_end) {
    rows_backward_weights(a);
  }
}

void backward_bias(const DenseBackwardBiasArgs& a) {
  for (std::int64_t oc = 0; oc < a.shape.outputs; oc += kBlock) {
    const std::int64_t lanes = a.shape.outputs - oc;
    V8 sum = a.first ? V8{} : load_some(a.diff_bias + oc, lanes);
    for (std::int64_t n = a.sample_begin; n < a.sample_end; ++n) {
      sum += load_some(a.diff_dst + n * a.diff_dst_stride + oc, lanes);
    }
    store_some(a.diff_bias + oc, sum, lanes);
  }
}

// Where weight (k, oc) is in the packed array.
SUREFIT_INLINE std::int64_t packed_index(DenseShape s, std::int64_t k, std::int64_t oc) {
  if (has_rows(s)) return rows_index(s, k, oc);
  return (oc / kDensePanel * s.inputs + k) * kDensePanel + oc % kDensePanel;
}

void pack_row(DenseShape s, std::int64_t k, const float* row, float* packed) {
  for (std::int64_t oc = 0; oc < s.outputs; ++oc) packed[packed_index(s, k, oc)] = row[oc];
}

void unpack_row(DenseShape s, std::int64_t k, const float* packed, float* row) {
  for (std::int64_t oc = 0; oc < s.outputs; ++oc) row[oc] = packed[packed_index(s, k, oc)];
}

}  // namespace

void fill_dense(KernelTable& table) {
  table.dense = {forward,       add_parts, backward_data, backward_weights,
                 backward_bias, pack_row,  unpack_row};
}

}  // namespace surefit::kernels::SUREFIT_ISA
