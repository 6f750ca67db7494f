// SPDX-License-Identifier: Apache-2.0
// GFLOP/s of the convolution kernels on one thread, counted as direct convolution (so Winograd can
// pass any peak), next to what a loop of bare multiply-adds gave around each line. That loop tells
// a slow moment from a slow kernel; it is not the hardware's peak: it reads 90 where kernels have
// reached 92.
//
// Usage: bench_conv_kernels [filter], e.g. `bench_conv_kernels winograd`
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/kernels/table.hpp"
#include "fma_loop.hpp"

namespace {

using namespace surefit::kernels;
using namespace surefit::bench;
using Floats = std::vector<float>;

struct Layer {
  const char* model;
  ConvShape shape;
  int n;
};

ConvShape shape(int ic, int oc, int size, int k, int stride = 1, int pad = 0, int groups = 1) {
  ConvShape s;
  s.ic = ic;
  s.oc = oc;
  s.h = s.w = size;
  s.kh = s.kw = k;
  s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = pad;
  s.oh = s.ow = (size + 2 * pad - k) / stride + 1;
  s.groups = groups;
  return s;
}

Floats random_floats(std::size_t count) {
  static std::mt19937 engine(1);
  Floats v(count);
  for (float& f : v) f = float(engine() >> 8) / float(1 << 23) - 1.0F;
  return v;
}

double flops(const Layer& l) {
  const ConvShape& s = l.shape;
  return 2.0 * l.n * s.oc * (s.ic / s.groups) * s.kh * s.kw * s.oh * s.ow;
}

const char* filter = "";

void report(const char* kernel, const Layer& l, const std::function<void()>& f) {
  char name[128];
  const ConvShape& s = l.shape;
  std::snprintf(name, sizeof name, "%-26s %-10s %4d->%-4d %3dx%-3d k%d s%d g%-4d n%-3d", kernel,
                l.model, s.ic, s.oc, s.h, s.w, s.kh, s.stride_h, s.groups, l.n);
  if (std::strstr(name, filter) == nullptr) return;
  const double before = can_run_fma_loop() ? fma_loop() : 0.0;
  const double t = seconds(f);
  const double top = can_run_fma_loop() ? std::max(before, fma_loop()) : 0.0;
  const double rate = flops(l) / t * 1e-9;
  std::printf("%s %8.1f us %7.1f GFLOP/s", name, t * 1e6, rate);
  if (top > 0.0) std::printf(", %3.0f %% of FMA loop %.0f", 100.0 * rate / top, top);
  std::printf("\n");
  std::fflush(stdout);
}

void bench_first(const Layer& l) {
  const ConvShape& s = l.shape;
  const KernelTable& t = table();
  const std::ptrdiff_t xs = std::ptrdiff_t(s.h) * s.w * s.ic;
  const std::ptrdiff_t ys = std::ptrdiff_t(blocked_floats(s.oc, s.oh, s.ow));
  const Floats x = random_floats(std::size_t(xs * l.n)), w = random_floats(first_weights_floats(s));
  const Floats b = random_floats(std::size_t(channel_blocks(s.oc)) * 8);
  Floats y = random_floats(std::size_t(ys * l.n)), dw(w.size()), db(b.size());
  Floats scratch(std::max(first_scratch_bytes(s), first_pool_scratch_bytes(s)) / 4);
  report("first forward", l, [&] {
    for (int i = 0; i < first_forward_blocks(s); ++i) {
      t.first.forward({s, x.data(), xs, w.data(), b.data(), y.data(), ys, true}, {0, l.n}, i,
                      scratch.data());
    }
  });
  report("first backward_weights", l, [&] {
    for (int i = 0; i < first_backward_weights_blocks(s); ++i) {
      t.first.backward_weights({s, x.data(), xs, y.data(), ys, dw.data(), db.data(), true},
                               {0, l.n}, i, scratch.data());
    }
  });
  if (s.stride_h != 1) return;
  const std::ptrdiff_t ps = std::ptrdiff_t(blocked_floats(s.oc, s.oh / 2, s.ow / 2));
  std::vector<std::uint8_t> argmax(std::size_t(ps * l.n));
  report("first_pool forward", l, [&] {
    for (int i = 0; i < first_pool_forward_blocks(s); ++i) {
      t.first_pool.forward({s, x.data(), xs, w.data(), b.data(), y.data(), argmax.data(), ps},
                           {0, l.n}, i, scratch.data());
    }
  });
  const Floats g = random_floats(std::size_t(ps * l.n));
  const std::ptrdiff_t count = std::ptrdiff_t(first_pool_gradient_floats(s));
  Floats parts(std::size_t(count * l.n));
  report("first_pool backward_weights", l, [&] {
    t.first_pool.backward_weights(
        {s, x.data(), xs, g.data(), argmax.data(), ps, parts.data(), count}, {0, l.n},
        scratch.data());
  });
}

void bench_winograd(const Layer& l) {
  const ConvShape& s = l.shape;
  const KernelTable& t = table();
  const std::ptrdiff_t xs = std::ptrdiff_t(blocked_floats(s.ic, s.h, s.w));
  const std::ptrdiff_t ys = std::ptrdiff_t(blocked_floats(s.oc, s.oh, s.ow));
  Floats x = random_floats(std::size_t(xs * l.n)), y = random_floats(std::size_t(ys * l.n));
  Floats w = random_floats(std::size_t(round_up(s.ic, 8)) * std::size_t(round_up(s.oc, 8)) * 9);
  const Floats b = random_floats(std::size_t(round_up(s.oc, 8)));
  using enum WinogradDirection;
  for (const WinogradDirection d : {kForward, kBackwardData}) {
    const bool back = d == kBackwardData;
    Floats u(winograd_u_bytes(s, d) / 4), scratch(winograd_pass_scratch_bytes(s, d) / 4);
    const WinogradWeights weights{s, d, w.data(), u.data(), 0};
    const WinogradPass args{s,
                            d,
                            back ? y.data() : x.data(),
                            back ? ys : xs,
                            u.data(),
                            0,
                            winograd_groups(s, d),
                            back ? nullptr : b.data(),
                            back ? x.data() : y.data(),
                            back ? xs : ys,
                            false};
    const auto transform = [&] {
      for (int g = 0; g < winograd_groups(s, d); ++g) t.winograd.transform_weights(weights, g);
    };
    report(back ? "winograd weights back" : "winograd weights", l, transform);
    transform();
    const int step = winograd_sample_group(s, d);
    report(back ? "winograd backward_data" : "winograd forward", l, [&] {
      for (int n = 0; n < l.n; n += step) {
        for (int i = 0; i < winograd_blocks(s, d); ++i) {
          t.winograd.pass(args, {n, std::min(n + step, l.n)}, i, scratch.data());
        }
      }
    });
  }
  Floats du(winograd_u_bytes(s, kForward) / 4);
  Floats scratch(winograd_backward_weights_scratch_bytes(s) / 4);
  report("winograd backward_weights", l, [&] {
    for (int i = 0; i < winograd_backward_weights_blocks(s); ++i) {
      t.winograd.backward_weights({s, x.data(), xs, y.data(), ys, du.data(), true}, {0, l.n}, i,
                                  scratch.data());
    }
    for (int g = 0; g < winograd_groups(s, kForward); ++g) {
      t.winograd.weights_gradient({s, du.data(), w.data()}, g);
    }
  });
}

void bench_winograd_few(const Layer& l) {
  const ConvShape& s = l.shape;
  const WinogradFewKernels& t = table().winograd_few;
  const std::ptrdiff_t xs = std::ptrdiff_t(blocked_floats(s.ic, s.h, s.w));
  const std::ptrdiff_t ys = std::ptrdiff_t(blocked_floats(s.oc, s.oh, s.ow));
  Floats x = random_floats(std::size_t(xs * l.n)), y = random_floats(std::size_t(ys * l.n));
  Floats w = random_floats(std::size_t(round_up(s.ic, 8)) * std::size_t(round_up(s.oc, 8)) * 9);
  const Samples all{0, l.n};
  using enum WinogradDirection;
  for (const WinogradDirection d : {kForward, kBackwardData}) {
    const bool back = d == kBackwardData;
    const int tiles = winograd_plane(s, d).tiles * l.n;
    Floats v(winograd_few_v_floats(s, d, l.n));
    Floats scratch(winograd_few_pass_scratch_bytes(s, d, l.n) / 4);
    const WinogradFewPicture picture{s,       d, tiles, back ? y.data() : x.data(), back ? ys : xs,
                                     v.data()};
    WinogradFewPass args{.tiles = tiles, .v = v.data(), .weights = w.data()};
    args.pass.shape = s;
    args.pass.direction = d;
    args.pass.dst = back ? x.data() : y.data();
    args.pass.dst_stride = back ? xs : ys;
    report(back ? "winograd few backward_data" : "winograd few forward", l, [&] {
      t.transform_input(picture, all, 0, 1);
      for (int b = 0; b < winograd_few_blocks(s, d); ++b) t.pass(args, all, b, scratch.data());
    });
  }
  const int tiles = winograd_plane(s, kForward).tiles * l.n;
  Floats v(winograd_few_v_floats(s, kForward, l.n)), m(winograd_few_m_floats(s, l.n));
  Floats scratch(winograd_few_gradient_scratch_bytes() / 4);
  report("winograd few weights", l, [&] {
    t.transform_input({s, kForward, tiles, x.data(), xs, v.data()}, all, 0, 1);
    t.transform_gradient({s, kForward, tiles, y.data(), ys, m.data()}, all, 0, 1);
    const int blocks = channel_blocks(s.ic);
    for (int b = 0; b < winograd_few_blocks(s, kForward); ++b) {
      WinogradFewGradient args{s, tiles, tiles, v.data(), m.data()};
      args.apart = std::ptrdiff_t(blocks) * 9 * 64;
      args.diff_weights = w.data() + b * 2 * kWinogradFewGroups * args.apart;
      t.backward_weights(args, b, 0, blocks, scratch.data());
    }
  });
}

void bench_direct(const Layer& l) {
  const ConvShape& s = l.shape;
  const KernelTable& t = table();
  const std::ptrdiff_t xs = std::ptrdiff_t(blocked_floats(s.ic, s.h, s.w));
  const std::ptrdiff_t ys = std::ptrdiff_t(blocked_floats(s.oc, s.oh, s.ow));
  Floats x = random_floats(std::size_t(xs * l.n)), y = random_floats(std::size_t(ys * l.n));
  Floats w = random_floats(direct_weights_floats(s)), reversed(direct_reversed_floats(s));
  Floats b = random_floats(std::size_t(round_up(s.oc, 8)));
  Floats scratch(direct_scratch_bytes(s) / 4);
  report("direct forward", l, [&] {
    for (int i = 0; i < direct_forward_blocks(s); ++i) {
      t.direct.forward({s, x.data(), xs, w.data(), b.data(), y.data(), ys, false}, {0, l.n}, i,
                       scratch.data());
    }
  });
  report("direct reverse_weights", l, [&] {
    for (int i = 0; i < direct_reverse_blocks(s); ++i) {
      t.direct.reverse_weights({s, w.data(), reversed.data()}, i);
    }
  });
  report("direct backward_data", l, [&] {
    for (int i = 0; i < direct_backward_data_blocks(s); ++i) {
      t.direct.backward_data({s, y.data(), ys, reversed.data(), x.data(), xs}, {0, l.n}, i,
                             scratch.data());
    }
  });
  x = random_floats(x.size());
  report("direct backward_weights", l, [&] {
    for (int i = 0; i < direct_backward_weights_blocks(s); ++i) {
      t.direct.backward_weights({s, x.data(), xs, y.data(), ys, w.data(), nullptr, true}, {0, l.n},
                                i, scratch.data());
    }
  });
}

void bench_depthwise(const Layer& l) {
  const ConvShape& s = l.shape;
  const KernelTable& t = table();
  const std::ptrdiff_t xs = std::ptrdiff_t(blocked_floats(s.ic, s.h, s.w));
  const std::ptrdiff_t ys = std::ptrdiff_t(blocked_floats(s.oc, s.oh, s.ow));
  Floats x = random_floats(std::size_t(xs * l.n)), y = random_floats(std::size_t(ys * l.n));
  Floats w = random_floats(depthwise_weights_floats(s));
  Floats scratch(depthwise_scratch_bytes(s) / 4);
  report("depthwise forward", l, [&] {
    for (int i = 0; i < depthwise_blocks(s); ++i) {
      t.depthwise.forward({s, x.data(), xs, w.data(), nullptr, y.data(), ys, false}, {0, l.n}, i,
                          scratch.data());
    }
  });
  report("depthwise backward_data", l, [&] {
    for (int i = 0; i < depthwise_blocks(s); ++i) {
      t.depthwise.backward_data({s, y.data(), ys, w.data(), x.data(), xs}, {0, l.n}, i,
                                scratch.data());
    }
  });
  x = random_floats(x.size());
  report("depthwise backward_weights", l, [&] {
    for (int i = 0; i < depthwise_backward_weights_blocks(s); ++i) {
      t.depthwise.backward_weights({s, x.data(), xs, y.data(), ys, w.data(), nullptr, true},
                                   {0, l.n}, i, scratch.data());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  std::printf("instruction set %s\n", table().isa);
  for (const Layer& l :
       {Layer{"seed28", shape(1, 32, 28, 3), 32}, Layer{"seed224", shape(3, 32, 224, 3), 2},
        Layer{"lenet5", shape(1, 6, 28, 5, 1, 2), 32},
        Layer{"vgg16", shape(3, 64, 224, 3, 1, 1), 1},
        Layer{"resnet18", shape(3, 64, 32, 3, 1, 1), 16},
        Layer{"resnet50", shape(3, 64, 224, 7, 2, 3), 2}}) {
    bench_first(l);
  }
  for (const Layer& l : {Layer{"resnet18", shape(64, 64, 32, 3, 1, 1), 8},
                         Layer{"resnet18", shape(128, 128, 16, 3, 1, 1), 16},
                         Layer{"resnet18", shape(256, 256, 8, 3, 1, 1), 32},
                         Layer{"resnet18", shape(512, 512, 4, 3, 1, 1), 64},
                         Layer{"resnet50", shape(64, 64, 56, 3, 1, 1), 4},
                         Layer{"resnet50", shape(128, 128, 28, 3, 1, 1), 4},
                         Layer{"resnet50", shape(256, 256, 14, 3, 1, 1), 8},
                         Layer{"resnet50", shape(512, 512, 7, 3, 1, 1), 16},
                         Layer{"vgg16", shape(64, 64, 224, 3, 1, 1), 1},
                         Layer{"vgg16", shape(512, 512, 14, 3, 1, 1), 8}}) {
    bench_winograd(l);
  }
  for (const int n : {8, 16, 32, 64, 128}) {
    for (const Layer& l : {Layer{"resnet18", shape(512, 512, 4, 3, 1, 1), n},
                           Layer{"resnet18", shape(256, 256, 8, 3, 1, 1), n / 4}}) {
      bench_winograd(l);
      bench_winograd_few(l);
    }
  }
  for (const Layer& l : {Layer{"resnet50", shape(64, 256, 56, 1), 2},
                         Layer{"resnet50", shape(256, 64, 56, 1), 2},
                         Layer{"resnet50", shape(512, 128, 28, 1), 4},
                         Layer{"resnet50", shape(256, 1024, 14, 1), 8},
                         Layer{"resnet50", shape(512, 2048, 7, 1), 16},
                         Layer{"resnet50", shape(2048, 512, 7, 1), 16},
                         Layer{"resnet50", shape(256, 512, 56, 1, 2), 2},
                         Layer{"resnet50", shape(1024, 2048, 14, 1, 2), 8},
                         Layer{"mobilenet", shape(32, 192, 28, 1), 8},
                         Layer{"mobilenet", shape(24, 144, 56, 1), 4},
                         Layer{"resnet18", shape(64, 128, 32, 3, 2, 1), 8},
                         Layer{"resnet18", shape(128, 256, 16, 3, 2, 1), 16},
                         Layer{"resnet18", shape(256, 512, 8, 3, 2, 1), 32},
                         Layer{"resnet18", shape(64, 128, 32, 1, 2), 8},
                         Layer{"resnet18", shape(256, 512, 8, 1, 2), 32},
                         Layer{"resnet50", shape(128, 128, 56, 3, 2, 1), 4},
                         Layer{"resnet50", shape(512, 512, 14, 3, 2, 1), 8},
                         Layer{"lenet5", shape(6, 16, 14, 5), 64},
                         Layer{"lenet5", shape(6, 16, 14, 5), 4},
                         Layer{"lenet5", shape(6, 16, 14, 5), 8},
                         Layer{"exact", shape(64, 64, 32, 3, 1, 1), 8},
                         Layer{"exact", shape(512, 512, 14, 3, 1, 1), 4},
                         Layer{"resnext", shape(128, 128, 56, 3, 1, 1, 32), 2}}) {
    bench_direct(l);
  }
  for (const Layer& l : {Layer{"mobilenet", shape(32, 32, 112, 3, 1, 1, 32), 4},
                         Layer{"mobilenet", shape(96, 96, 112, 3, 2, 1, 96), 2},
                         Layer{"mobilenet", shape(144, 144, 56, 3, 1, 1, 144), 4},
                         Layer{"mobilenet", shape(384, 384, 14, 3, 1, 1, 384), 8},
                         Layer{"mobilenet", shape(960, 960, 7, 3, 1, 1, 960), 8},
                         Layer{"effnet", shape(240, 240, 14, 5, 1, 2, 240), 8},
                         Layer{"convnext", shape(96, 96, 56, 7, 1, 3, 96), 2}}) {
    bench_depthwise(l);
  }
  return 0;
}
