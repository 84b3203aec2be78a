#include "shoal/ops/attention.hpp"

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using I = std::int64_t;
using V = std::vector<double>;

// Dense heads in FP64: q, o, d_o, dq [samples][heads][seq][dim], k, v, dk, dv with kv_heads.
struct Case {
  I samples, seq, heads, kv_heads, dim;
  double scale;
  ops::Dropout dropout;
  I first_head = 0, all_heads = 0;

  I at(I sample, I head, I count, I i) const { return ((sample * count + head) * seq + i) * dim; }
  double keep(I sample, I head, I i, I j) const {
    if (dropout.p == 0.0) return 1.0;
    const I all = all_heads ? all_heads : heads;
    const I index = (((dropout.first_sample + sample) * all + first_head + head) * seq + i) * seq + j;
    return dropout.key.bits(static_cast<std::uint64_t>(index)) < dropout_threshold(dropout.p)
               ? 0.0
               : 1.0 / (1.0 - dropout.p);
  }
};

// The row's probabilities before dropout; their log of the sum of exponentials to lse.
V probabilities(const Case& c, const V& q, const V& k, I s, I h, I i, double* lse) {
  V p(static_cast<std::size_t>(i + 1));
  const double* a = q.data() + c.at(s, h, c.heads, i);
  double most = -INFINITY, sum = 0.0;
  for (I j = 0; j <= i; ++j) {
    const double* b = k.data() + c.at(s, h / (c.heads / c.kv_heads), c.kv_heads, j);
    double dot = 0.0;
    for (I d = 0; d < c.dim; ++d) dot += a[d] * b[d];
    p[j] = dot * c.scale;
    most = std::max(most, p[j]);
  }
  for (double& x : p) sum += x = std::exp(x - most);
  for (double& x : p) x /= sum;
  if (lse) *lse = most + std::log(sum);
  return p;
}

V forward(const Case& c, const V& q, const V& k, const V& v, V* lse = nullptr) {
  V o(q.size(), 0.0);
  if (lse) lse->assign(static_cast<std::size_t>(c.samples * c.heads * c.seq), 0.0);
  for (I s = 0; s < c.samples; ++s)
    for (I h = 0; h < c.heads; ++h)
      for (I i = 0; i < c.seq; ++i) {
        const V p = probabilities(c, q, k, s, h, i, lse ? &(*lse)[(s * c.heads + h) * c.seq + i] : nullptr);
        for (I j = 0; j <= i; ++j)
          for (I d = 0; d < c.dim; ++d)
            o[c.at(s, h, c.heads, i) + d] +=
                c.keep(s, h, i, j) * p[j] * v[c.at(s, h / (c.heads / c.kv_heads), c.kv_heads, j) + d];
      }
  return o;
}

void backward(const Case& c, const V& q, const V& k, const V& v, const V& d_o, V& dq, V& dk, V& dv) {
  dq.assign(q.size(), 0.0);
  dk.assign(k.size(), 0.0);
  dv.assign(v.size(), 0.0);
  for (I s = 0; s < c.samples; ++s)
    for (I h = 0; h < c.heads; ++h)
      for (I i = 0; i < c.seq; ++i) {
        const V p = probabilities(c, q, k, s, h, i, nullptr);
        const I row = c.at(s, h, c.heads, i), kv = h / (c.heads / c.kv_heads);
        V dp(p.size());
        double delta = 0.0;
        for (I j = 0; j <= i; ++j) {
          const I key = c.at(s, kv, c.kv_heads, j);
          double dot = 0.0;
          for (I d = 0; d < c.dim; ++d) {
            dot += d_o[row + d] * v[key + d];
            dv[key + d] += c.keep(s, h, i, j) * p[j] * d_o[row + d];
          }
          dp[j] = dot * c.keep(s, h, i, j);
          delta += p[j] * dp[j];
        }
        for (I j = 0; j <= i; ++j) {
          const I key = c.at(s, kv, c.kv_heads, j);
          const double ds = p[j] * (dp[j] - delta) * c.scale;
          for (I d = 0; d < c.dim; ++d) {
            dq[row + d] += ds * k[key + d];
            dk[key + d] += ds * q[row + d];
          }
        }
      }
}

// Dense FP64 heads out of a view, and a dense float copy into it.
V gather(const Case& c, const ops::HeadsView& v, I heads) {
  V out(static_cast<std::size_t>(c.samples * heads * c.seq * c.dim));
  const I width = v.t.dim(-1);
  for (I s = 0; s < c.samples; ++s)
    for (I h = 0; h < heads; ++h)
      for (I i = 0; i < c.seq; ++i)
        for (I d = 0; d < c.dim; ++d)
          out[c.at(s, h, heads, i) + d] =
              v.t.as<float>()[((h / v.heads_per_piece) * c.samples * c.seq + s * c.seq + i) * width +
                              v.column + h % v.heads_per_piece * c.dim + d];
  return out;
}

struct Tensors {
  Tensor qkv, o, lse, d_o, d_qkv;
  ops::AttentionShape shape;
  ops::HeadsView q, k, v, ov, dov, dq, dk, dv;
};

class Attention : public testing::Test {
 protected:
  Random random;
  const Stream s = Stream::create({});

  // QKV fused inside kv pieces where both have as many; else q of its own.
  Tensors make(const Case& c, I q_pieces, I kv_pieces) {
    Tensors t;
    const I tokens = c.samples * c.seq, hq = c.heads / q_pieces, hk = c.kv_heads / kv_pieces;
    t.shape = {c.samples,    c.seq,      c.heads, c.kv_heads, c.dim, static_cast<float>(c.scale),
               c.first_head, c.all_heads};
    const I q_width = hq * c.dim, k_width = hk * c.dim;
    const Tensor q = q_pieces == kv_pieces
                         ? random_tensor(s, {q_pieces, tokens, q_width + 2 * k_width}, random)
                         : random_tensor(s, {q_pieces, tokens, q_width}, random);
    const Tensor dq = filled(s, q.shape(), 7);
    const bool fused = q_pieces == kv_pieces;
    const Tensor kv = fused ? q : random_tensor(s, {kv_pieces, tokens, 2 * k_width}, random);
    const Tensor dkv = fused ? dq : filled(s, kv.shape(), 7);
    const I column = fused ? q_width : 0;
    t.o = filled(s, {q_pieces, tokens, q_width}, 7);
    t.d_o = random_tensor(s, t.o.shape(), random);
    t.lse = filled(s, {c.samples, c.heads, c.seq}, 7);
    t.qkv = q;
    t.d_qkv = dq;
    t.q = {q, 0, hq}, t.dq = {dq, 0, hq}, t.ov = {t.o, 0, hq}, t.dov = {t.d_o, 0, hq};
    t.k = {kv, column, hk}, t.dk = {dkv, column, hk};
    t.v = {kv, column + k_width, hk}, t.dv = {dkv, column + k_width, hk};
    return t;
  }
  void run(const Case& c, const Tensors& t) {
    ops::attention_forward(s, t.shape, t.q, t.k, t.v, t.ov, t.lse, c.dropout);
    ops::attention_backward(s, t.shape, t.q, t.k, t.v, t.ov, t.lse, t.dov, t.dq, t.dk, t.dv, c.dropout);
  }
  void check(const Case& c, I q_pieces = 1, I kv_pieces = 1) {
    SCOPED_TRACE(testing::Message() << "samples " << c.samples << " seq " << c.seq << " heads " << c.heads
                                    << "/" << c.kv_heads << " dim " << c.dim << " dropout " << c.dropout.p
                                    << " pieces " << q_pieces << "/" << kv_pieces);
    const Tensors t = make(c, q_pieces, kv_pieces);
    run(c, t);
    const V q = gather(c, t.q, c.heads), k = gather(c, t.k, c.kv_heads), v = gather(c, t.v, c.kv_heads);
    const V d_o = gather(c, t.dov, c.heads);
    V lse, dq, dk, dv;
    const V o = forward(c, q, k, v, &lse);
    backward(c, q, k, v, d_o, dq, dk, dv);
    const auto near = [&](const char* what, const V& got, const V& want,
                          std::initializer_list<const V*> inputs) {
      double error = 0.0, in = 0.0;
      for (std::size_t i = 0; i < want.size(); ++i) error += (got[i] - want[i]) * (got[i] - want[i]);
      for (const V* x : inputs) in += norm2(*x) * norm2(*x);
      const double scale = std::max(norm2(want), std::sqrt(in));
      EXPECT_LE(std::sqrt(error), 1e-5 * scale) << what;
    };
    near("o", gather(c, t.ov, c.heads), o, {&q, &k, &v});
    near("lse", values(t.lse), lse, {&q, &k, &v});
    near("dq", gather(c, t.dq, c.heads), dq, {&q, &k, &v, &d_o});
    near("dk", gather(c, t.dk, c.kv_heads), dk, {&q, &k, &v, &d_o});
    near("dv", gather(c, t.dv, c.kv_heads), dv, {&q, &k, &v, &d_o});
  }
  static ops::Dropout dropout(double p, I first_sample = 3) {
    return {p, {.seed = 5, .purpose = Purpose::dropout_attention, .batch = 9, .layer = 2}, first_sample};
  }
};

TEST_F(Attention, ReferenceGradientIsThatOfTheReference) {
  const Case c{1, 5, 2, 1, 3, 0.6, dropout(0.3)};
  V q(30), k(15), v(15), d_o(30), dq, dk, dv;
  for (V* x : {&q, &k, &v, &d_o})
    for (double& e : *x) e = random.normal();
  backward(c, q, k, v, d_o, dq, dk, dv);
  const auto loss = [&](const V& a, const V& b, const V& e) {
    const V o = forward(c, a, b, e);
    double sum = 0.0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
    return sum;
  };
  EXPECT_TRUE(gradient_matches([&](const V& x) { return loss(x, k, v); }, q, dq));
  EXPECT_TRUE(gradient_matches([&](const V& x) { return loss(q, x, v); }, k, dk));
  EXPECT_TRUE(gradient_matches([&](const V& x) { return loss(q, k, x); }, v, dv));
}

TEST_F(Attention, AgreesWithFp64AtSizesThatAreMultiplesOfNothing) {
  for (I seq : odd_sizes())
    for (I dim : {1, 31, 33, 64, 257}) check({seq < 100 ? 2 : 1, seq, 2, 2, dim, 1.0 / std::sqrt(dim), {}});
  check({0, 33, 2, 2, 8, 0.3, {}});
  check({1, 128, 3, 3, 32, 0.2, {}});
  check({2, 64, 1, 1, 16, 0.25, {}});
}

TEST_F(Attention, AgreesWithFp64WithGroupsAndPieces) {
  for (I pieces : {1, 2, 3}) check({2, 70, 6, 6, 10, 0.3, {}}, pieces, pieces);
  check({2, 70, 6, 2, 10, 0.3, {}});
  check({2, 70, 6, 2, 10, 0.3, {}}, 2, 2);
  check({2, 70, 6, 2, 10, 0.3, {}}, 6, 2);   // a group of three over three pieces
  check({1, 70, 12, 3, 10, 0.3, {}}, 4, 3);  // pieces of three, groups of four
  check({1, 33, 10, 1, 7, 0.3, {}}, 5, 1);
}

TEST_F(Attention, AgreesWithFp64WithDropout) {
  for (I seq : {1, 31, 64, 67, 130}) check({2, seq, 4, 2, 12, 0.3, dropout(0.25)});
  Case c{2, 37, 2, 2, 12, 0.3, dropout(0.5)};
  c.first_head = 3, c.all_heads = 7;
  check(c);
  c = {1, 33, 1, 1, 8, 0.3, dropout(0.5, (I{1} << 33) + 5)};  // indices beyond 32 bits
  check(c);
}

// A microbatch of one sample, numbered, draws what that sample draws within the batch; so does a head.
TEST_F(Attention, DropoutDependsOnThePlaceInTheBatchOnly) {
  const Case c{3, 70, 2, 2, 16, 0.25, dropout(0.4, 10)};
  const Tensors t = make(c, 2, 2);
  run(c, t);
  for (I sample = 0; sample < 3; ++sample)
    for (I head = 0; head < 2; ++head) {
      Case one{1, 70, 1, 1, 16, 0.25, dropout(0.4, 10 + sample), head, 2};
      const Tensors u = make(one, 1, 1);
      const auto rows = [&](const Tensor& x) { return x.select(head).slice(sample * 70, sample * 70 + 70); };
      std::memcpy(u.qkv.data(), rows(t.qkv).data(), static_cast<std::size_t>(u.qkv.nbytes()));
      std::memcpy(u.d_o.data(), rows(t.d_o).data(), static_cast<std::size_t>(u.d_o.nbytes()));
      run(one, u);
      EXPECT_TRUE(same_bits(u.o.select(0), rows(t.o)));
      EXPECT_TRUE(same_bits(u.d_qkv.select(0), rows(t.d_qkv)));
    }
}

// R6: within a query piece heads in order, then the tree over pieces: dK of a group over pieces is the tree's
// sum of what each piece alone gives.
TEST_F(Attention, GroupsOverPiecesAreSummedByTheTree) {
  const Case c{1, 70, 8, 1, 10, 0.3, {}};
  const Tensors t = make(c, 4, 1);
  run(c, t);
  std::vector<Tensor> parts;
  for (I p = 0; p < 4; ++p) {
    Tensors u = t;
    u.shape.heads = 2;
    u.lse = clone(s, t.lse.view({8, 70}).slice(2 * p, 2 * p + 2).view({1, 2, 70}));
    parts.push_back(filled(s, t.dk.t.shape(), 0));
    for (ops::HeadsView* v : {&u.q, &u.ov, &u.dov, &u.dq}) v->t = v->t.slice(p, p + 1);
    u.dk.t = u.dv.t = parts.back();
    ops::attention_backward(s, u.shape, u.q, u.k, u.v, u.ov, u.lse, u.dov, u.dq, u.dk, u.dv, {});
  }
  const Tensor want = clone(s, parts[0]);
  for (I i = 0; i < want.numel(); ++i)
    want.as<float>()[i] = (parts[0].as<float>()[i] + parts[1].as<float>()[i]) +
                          (parts[2].as<float>()[i] + parts[3].as<float>()[i]);
  EXPECT_TRUE(same_bits(t.dk.t, want));
}

TEST_F(Attention, BitsDoNotDependOnThreadsOrAlignment) {
  const int before = num_threads();
  for (double p : {0.0, 0.2}) {
    const Case c{2, 100, 4, 2, 24, 0.2, dropout(p)};
    Tensors t = make(c, 1, 1);
    set_num_threads(1);
    run(c, t);
    const Tensor o = clone(s, t.o), d = clone(s, t.d_qkv), lse = clone(s, t.lse);
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      run(c, t);
      EXPECT_TRUE(same_bits(t.o, o)) << threads;
      EXPECT_TRUE(same_bits(t.d_qkv, d)) << threads;
      EXPECT_TRUE(same_bits(t.lse, lse)) << threads;
    }
    const auto move = [&](const Tensor& x) {
      const Tensor room = Tensor::empty({x.numel() + 1}, DType::f32, s);
      const Tensor u = room.slice(1, x.numel() + 1).view(x.shape());
      std::memcpy(u.data(), x.data(), static_cast<std::size_t>(x.nbytes()));
      return u;
    };
    const Tensor qkv = move(t.qkv), d_qkv = move(t.d_qkv);
    t.q.t = t.k.t = t.v.t = qkv;
    t.dq.t = t.dk.t = t.dv.t = d_qkv;
    t.ov.t = move(t.o);
    t.dov.t = move(t.d_o);
    run(c, t);
    EXPECT_TRUE(same_bits(t.ov.t, o));
    EXPECT_TRUE(same_bits(d_qkv, d));
  }
  set_num_threads(before);
}

TEST_F(Attention, DecodingGivesTheLastRowOfTheForwardPass) {
  for (I seq : {1, 31, 70})
    for (I dim : {1, 16, 33}) {
      const Case c{1, seq, 4, 2, dim, 0.2, {}};
      const Tensor q = random_tensor(s, {seq, 4 * dim}, random), k = random_tensor(s, {seq, 2 * dim}, random);
      const Tensor v = random_tensor(s, {seq, 2 * dim}, random), o = filled(s, {4 * dim}, 7);
      const ops::AttentionShape shape{1, seq, 4, 2, dim, 0.2f};
      ops::attention_decode(s, shape, q.select(seq - 1), k, v, seq, o);
      const V o64 = forward(c, gather(c, {q, 0, 4}, 4), gather(c, {k, 0, 2}, 2), gather(c, {v, 0, 2}, 2));
      V want;
      for (I h = 0; h < 4; ++h)
        for (I d = 0; d < dim; ++d) want.push_back(o64[c.at(0, h, 4, seq - 1) + d]);
      EXPECT_TRUE(close(o, want, {q.select(seq - 1), k, v})) << seq << " " << dim;
    }
}

TEST_F(Attention, ErrorsNameTheSizes) {
  const Case c{2, 8, 4, 2, 4, 0.5, {}};
  Tensors t = make(c, 1, 1);
  const auto forward = [&] { ops::attention_forward(s, t.shape, t.q, t.k, t.v, t.ov, t.lse, c.dropout); };
  t.shape.kv_heads = 3;
  EXPECT_MESSAGE(forward(), ShapeError, "heads 4 (from 0 of 4), kv_heads 3");
  t.shape.kv_heads = 2;
  t.k.column = 1000;
  EXPECT_MESSAGE(
      forward(), ShapeError,
      "attention_forward: k: expected f32 [pieces, 2 samples x 8 tokens, width] with 2 heads of 4");
  t.k.column = 16;
  t.lse = filled(s, {2, 8, 4}, 0);
  EXPECT_MESSAGE(forward(), ShapeError, "attention_forward: lse: expected f32[2, 4, 8], got f32[2, 8, 4]");
  EXPECT_MESSAGE(ops::attention_decode(s, t.shape, filled(s, {16}, 0), filled(s, {3, 8}, 0),
                                       filled(s, {3, 8}, 0), 4, filled(s, {16}, 0)),
                 ShapeError, "k_cache: expected at least 32 f32 elements");
}

}  // namespace
}  // namespace shoal
