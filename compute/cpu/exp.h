// ExactExp (base/exact_math.h) over 16 lanes, bit for bit.
#pragma once

namespace winnow::cpu {

template <class L>
[[gnu::always_inline]] inline typename L::Float Exp(typename L::Float x) {
  const auto clamped = L::Min(x, L::Set(88.0f));
  const auto n = L::Round(L::Mul(clamped, L::Set(1.44269504f)));
  const auto r = L::NegFma(n, L::Set(1.42860677e-6f), L::NegFma(n, L::Set(0.693145752f), clamped));
  auto y = L::Set(1.3888889e-3f);
  y = L::Fma(y, r, L::Set(8.3333333e-3f));
  y = L::Fma(y, r, L::Set(4.1666667e-2f));
  y = L::Fma(y, r, L::Set(1.6666667e-1f));
  y = L::Fma(y, r, L::Set(0.5f));
  y = L::Fma(y, r, L::Set(1.0f));
  y = L::Fma(y, r, L::Set(1.0f));
  return L::KeepAbove(x, -87.0f, L::Mul(y, L::PowerOfTwo(n)));
}

}  // namespace winnow::cpu
