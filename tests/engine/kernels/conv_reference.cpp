// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

namespace surefit::kernels::testing {

namespace {

std::size_t size(int a, int b, int c, int d) {
  return std::size_t(a) * std::size_t(b) * std::size_t(c) * std::size_t(d);
}

std::size_t at(int i, int c, int y, int x, int channels, int h, int w) {
  return ((std::size_t(i) * std::size_t(channels) + std::size_t(c)) * std::size_t(h) +
          std::size_t(y)) *
             std::size_t(w) +
         std::size_t(x);
}

void add(Exact& e, std::size_t i, double a, double b) {
  e.value[i] += a * b;
  e.magnitude[i] += std::abs(a * b);
}

Exact zeros(std::size_t n) {
  return {std::vector<double>(n), std::vector<double>(n)};
}

}  // namespace

std::string Problem::name() const {
  const ConvShape& s = shape;
  std::ostringstream out;
  out << 'n' << n << ' ' << s.ic << "->" << s.oc << ' ' << s.h << 'x' << s.w << " k" << s.kh << 'x'
      << s.kw << " s" << s.stride_h << ',' << s.stride_w << " p" << s.pad_top << ',' << s.pad_left
      << " d" << s.dilation_h << " g" << s.groups;
  return out.str();
}

ConvShape conv_shape(int ic, int oc, int h, int w, int k, int stride, int pad, int dilation,
                     int groups) {
  ConvShape s;
  s.ic = ic;
  s.oc = oc;
  s.h = h;
  s.w = w;
  s.kh = s.kw = k;
  s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = pad;
  s.dilation_h = s.dilation_w = dilation;
  s.groups = groups;
  const int reach = (k - 1) * dilation + 1;
  s.oh = (h + 2 * pad - reach) / stride + 1;
  s.ow = (w + 2 * pad - reach) / stride + 1;
  return s;
}

Problem make_problem(const ConvShape& s, int n, std::uint32_t seed, const Floats* diff_dst) {
  Problem p;
  p.shape = s;
  p.n = n;
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const auto fill = [&](std::size_t count) {
    Floats v(count);
    for (float& f : v) f = uniform(engine);
    return v;
  };
  const int icg = s.ic / s.groups, ocg = s.oc / s.groups;
  p.x = fill(size(n, s.ic, s.h, s.w));
  p.w = fill(size(s.oc, icg, s.kh, s.kw));
  p.b = fill(std::size_t(s.oc));
  p.dy = diff_dst != nullptr ? *diff_dst : fill(size(n, s.oc, s.oh, s.ow));
  p.y = zeros(p.dy.size());
  p.dx = zeros(p.x.size());
  p.dw = zeros(p.w.size());
  p.db = zeros(p.b.size());
  for (int i = 0; i < n; ++i) {
    for (int o = 0; o < s.oc; ++o) {
      for (int oh = 0; oh < s.oh; ++oh) {
        for (int ow = 0; ow < s.ow; ++ow) {
          const std::size_t out = at(i, o, oh, ow, s.oc, s.oh, s.ow);
          const double g = p.dy[out];
          add(p.y, out, p.b[std::size_t(o)], 1.0);
          add(p.db, std::size_t(o), g, 1.0);
          for (int c = 0; c < icg; ++c) {
            for (int kh = 0; kh < s.kh; ++kh) {
              const int ih = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
              if (ih < 0 || ih >= s.h) continue;
              for (int kw = 0; kw < s.kw; ++kw) {
                const int iw = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
                if (iw < 0 || iw >= s.w) continue;
                const std::size_t in = at(i, o / ocg * icg + c, ih, iw, s.ic, s.h, s.w);
                const std::size_t k = at(o, c, kh, kw, icg, s.kh, s.kw);
                add(p.y, out, p.x[in], p.w[k]);
                add(p.dx, in, g, p.w[k]);
                add(p.dw, k, g, p.x[in]);
              }
            }
          }
        }
      }
    }
  }
  return p;
}

Floats to_blocked(const Floats& plain, int n, int c, int h, int w) {
  const int blocks = channel_blocks(c);
  Floats out(size(n, blocks * 8, h, w));
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < c; ++k)
      for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x)
          out[at(i, k / 8, y, x, blocks, h, w) * 8 + std::size_t(k % 8)] =
              plain[at(i, k, y, x, c, h, w)];
  return out;
}

Floats from_blocked(const Floats& blocked, int n, int c, int h, int w) {
  const int blocks = channel_blocks(c);
  Floats out(size(n, c, h, w));
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < blocks * 8; ++k)
      for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) {
          const float v = blocked[at(i, k / 8, y, x, blocks, h, w) * 8 + std::size_t(k % 8)];
          if (k < c) {
            out[at(i, k, y, x, c, h, w)] = v;
          } else {
            EXPECT_EQ(v, 0.0F) << "padding lane " << k << " at " << y << "," << x;
          }
        }
  return out;
}

Floats to_channels_last(const Floats& plain, int n, int c, int h, int w) {
  Floats out(plain.size());
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < c; ++k)
      for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) out[at(i, y, x, k, h, w, c)] = plain[at(i, k, y, x, c, h, w)];
  return out;
}

Floats from_channels_last(const Floats& last, int n, int c, int h, int w) {
  Floats out(last.size());
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < c; ++k)
      for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) out[at(i, k, y, x, c, h, w)] = last[at(i, y, x, k, h, w, c)];
  return out;
}

namespace {

std::size_t first_at(const ConvShape& s, int o, int c, int kh, int kw) {
  return at(o / 8, kh, kw, c, s.kh, s.kw, s.ic) * 8 + std::size_t(o % 8);
}

std::size_t blocked_at(const ConvShape& s, int o, int c, int kh, int kw) {
  return at(o / 8, c / 8, kh, kw, channel_blocks(s.ic), s.kh, s.kw) * 64 + std::size_t(c % 8) * 8 +
         std::size_t(o % 8);
}

template <class Index>
Floats pack(const Floats& plain, const ConvShape& s, std::size_t count, Index index) {
  Floats out(count);
  for (int o = 0; o < s.oc; ++o)
    for (int c = 0; c < s.ic; ++c)
      for (int kh = 0; kh < s.kh; ++kh)
        for (int kw = 0; kw < s.kw; ++kw)
          out[index(s, o, c, kh, kw)] = plain[at(o, c, kh, kw, s.ic, s.kh, s.kw)];
  return out;
}

template <class Index>
Floats unpack(const Floats& packed, const ConvShape& s, Index index) {
  Floats out(size(s.oc, s.ic, s.kh, s.kw));
  Floats rest = packed;
  for (int o = 0; o < s.oc; ++o)
    for (int c = 0; c < s.ic; ++c)
      for (int kh = 0; kh < s.kh; ++kh)
        for (int kw = 0; kw < s.kw; ++kw) {
          const std::size_t i = index(s, o, c, kh, kw);
          out[at(o, c, kh, kw, s.ic, s.kh, s.kw)] = packed[i];
          rest[i] = 0.0F;
        }
  for (const float v : rest) EXPECT_EQ(v, 0.0F) << "padding lane of the weights";
  return out;
}

}  // namespace

Floats to_first_weights(const Floats& plain, const ConvShape& s) {
  return pack(plain, s, first_weights_floats(s), first_at);
}
Floats from_first_weights(const Floats& packed, const ConvShape& s) {
  return unpack(packed, s, first_at);
}
Floats to_blocked_weights(const Floats& plain, const ConvShape& s) {
  return pack(plain, s, size(channel_blocks(s.oc) * 8, channel_blocks(s.ic) * 8, s.kh, s.kw),
              blocked_at);
}
Floats from_blocked_weights(const Floats& packed, const ConvShape& s) {
  return unpack(packed, s, blocked_at);
}

Floats padded_bias(const Floats& b) {
  Floats out = b;
  out.resize(std::size_t(channel_blocks(int(b.size()))) * 8);
  return out;
}

void expect_close(const Floats& got, const Exact& want, int terms, double rms_limit,
                  const std::string& what, Scale scale) {
  ASSERT_EQ(got.size(), want.value.size()) << what;
  const double unit = std::ldexp(1.0, -24);
  const double largest = *std::max_element(want.magnitude.begin(), want.magnitude.end());
  double error = 0.0, total = 0.0;
  int reported = 0;
  for (std::size_t i = 0; i < got.size() && reported < 5; ++i) {
    const double difference = std::abs(double(got[i]) - want.value[i]);
    const double bound =
        (terms + 2) * unit * (scale == Scale::kOwn ? want.magnitude[i] : 4.0 * largest);
    if (!(difference <= bound)) {
      ADD_FAILURE() << what << " [" << i << "]: " << got[i] << " for " << want.value[i]
                    << ", bound " << bound;
      ++reported;
    }
    error += difference * difference;
    total += want.value[i] * want.value[i];
  }
  EXPECT_LE(std::sqrt(error), rms_limit * std::sqrt(total)) << what << ", rms";
}

void expect_same_bits(const Floats& a, const Floats& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      FAIL() << what << ": element " << i << " is " << a[i] << " and " << b[i];
    }
  }
}

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> found;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (const KernelTable* table = table_for(isa)) found.push_back(table);
  }
  return found;
}

Floats poisoned(std::size_t count) {
  return Floats(count, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace surefit::kernels::testing
