// mma.sync and cp.async as templates/own/tensor.cu.j2 calls them. A copy's target holds NaN until its thread has waited
// for it, so that reading too early, and copying over what is still read, are both seen.
#pragma once
#define UCUTLASS_TENSOR_CORES 1
#define UCUTLASS_DYNAMIC_SHARED(name) uint4* const name = reinterpret_cast<uint4*>(uc_cpu::rooms[uc_cpu::now->rank]->bytes)

namespace uc_cpu {
struct Fragments { uint4 a; unsigned b[2]; };
inline Fragments fragments[16 << 10];

inline float from_bits(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline unsigned to_bits(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
inline float from_f16(unsigned bits) { uint16_t const low = bits; _Float16 x; std::memcpy(&x, &low, 2); return float(x); }
inline unsigned to_f16(float x) { _Float16 const h = _Float16(x); uint16_t bits; std::memcpy(&bits, &h, 2); return bits; }
inline float from_bf16(unsigned bits) { return from_bits(bits << 16); }
inline unsigned to_bf16(float x) { unsigned const bits = to_bits(x); return (bits + 0x7fff + (bits >> 16 & 1)) >> 16; }

inline float half_of(unsigned word, int high, float (*number)(unsigned)) { return number(high ? word >> 16 : word & 0xffff); }

// Element (row, k) of a and (k, column) of b from the lanes that hold them, by PTX's tables for m16n8k8 and m16n8k16.
inline float a_of(int warp, int row, int k, float (*number)(unsigned)) {
  int const pair = number ? k % 8 / 2 : k % 4, far = number ? k / 8 : k / 4;
  uint4 const& a = fragments[warp + row % 8 * 4 + pair].a;
  unsigned const words[4] = {a.x, a.y, a.z, a.w};
  unsigned const word = words[row / 8 + 2 * far];
  return number ? half_of(word, k % 2, number) : from_bits(word & ~0x1fffu);
}
inline float b_of(int warp, int k, int column, float (*number)(unsigned)) {
  int const pair = number ? k % 8 / 2 : k % 4, far = number ? k / 8 : k / 4;
  unsigned const word = fragments[warp + column * 4 + pair].b[far];
  return number ? half_of(word, k % 2, number) : from_bits(word & ~0x1fffu);
}

inline void mma(float (&d)[4], uint4 const& a, unsigned b0, unsigned b1, float (*number)(unsigned)) {
  int const me = int(now->id), lane = me % 32, warp = me - lane;
  fragments[me] = {a, {b0, b1}};
  wait(kWarp);
  for (int i = 0; i < 4; ++i) {
    int const row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < (number ? 16 : 8); ++k) d[i] += a_of(warp, row, k, number) * b_of(warp, k, column, number);
  }
  wait(kWarp);
}
}  // namespace uc_cpu

// Ties go away from zero, as cvt.rna does.
inline unsigned round_tf32(float x) { return std::isfinite(x) ? (uc_cpu::to_bits(x) + 0x1000) & ~0x1fffu : uc_cpu::to_bits(x); }
inline unsigned round_f16(float low, float high) { return uc_cpu::to_f16(low) | uc_cpu::to_f16(high) << 16; }
inline unsigned round_bf16(float low, float high) { return uc_cpu::to_bf16(low) | uc_cpu::to_bf16(high) << 16; }
inline float larger(float most, float x) { return most != most || x != x ? uc_cpu::from_bits(0x7fffffffu) : std::max(most, std::fabs(x)); }
inline void mma_tf32(float (&d)[4], uint4 const& a, unsigned b0, unsigned b1) { uc_cpu::mma(d, a, b0, b1, nullptr); }
inline void mma_f16(float (&d)[4], uint4 const& a, unsigned b0, unsigned b1) { uc_cpu::mma(d, a, b0, b1, uc_cpu::from_f16); }
inline void mma_bf16(float (&d)[4], uint4 const& a, unsigned b0, unsigned b1) { uc_cpu::mma(d, a, b0, b1, uc_cpu::from_bf16); }

template <class W> inline void put_four(W* to, W const& v) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(W)) {
    std::fprintf(stderr, "a store of %zu bytes at %p\n", sizeof(W), static_cast<void*>(to));
    std::abort();
  }
  *to = v;
}

template <int Bytes> inline void copy_async(void* to, void const* from, bool there) {
  if (reinterpret_cast<uintptr_t>(to) % Bytes || reinterpret_cast<uintptr_t>(from) % Bytes) {
    std::fprintf(stderr, "a copy of %d bytes from %p to %p\n", Bytes, from, to);
    std::abort();
  }
  std::memset(to, 0xff, Bytes);
  uc_cpu::now->copies.back().push_back({to, there ? from : nullptr, Bytes});
}
inline void copy_commit() { uc_cpu::now->copies.emplace_back(); }
template <int N> inline void copy_wait() {
  auto& groups = uc_cpu::now->copies;
  size_t const done = groups.size() > N + 1 ? groups.size() - N - 1 : 0;
  for (size_t i = 0; i < done; ++i)
    for (auto const& c : groups[i]) c.from ? std::memcpy(c.to, c.from, c.bytes) : std::memset(c.to, 0, c.bytes);
  groups.erase(groups.begin(), groups.begin() + done);
}
