// Clusters of blocks as templates/own/cluster.cu.j2 calls them. The blocks of a cluster take turns at random, from a seed
// (UCUTLASS_TURNS), so that some run far ahead of others; a store into a block that has not begun or has ended is reported.
#pragma once
#define UCUTLASS_CLUSTERS 1

inline void cluster_arrive() { ++uc_cpu::now->arrivals; }
inline void cluster_wait() { uc_cpu::wait(uc_cpu::kCluster); }

// ---- barriers that count bytes: what is sent is under way until a random turn, and a wait looks again in each turn
namespace uc_cpu {
struct Counting { int pending = 1; long bytes = 0; unsigned phase = 0; };
struct Sent { unsigned char* to; uint4 value; void* barrier; unsigned rank; };
inline std::map<void*, Counting> counting;
inline std::vector<Sent> under_way;

inline void end_of_phase(Counting& b) {
  if (b.pending == 0 && b.bytes == 0) { b.pending = 1; ++b.phase; }
}
inline Fiber const* first_of(unsigned rank) {
  for (Fiber const& f : fibers) if (f.rank == int(rank) && f.index.x == 0) return &f;
  return nullptr;
}
inline bool block_began(unsigned rank) { Fiber const* const f = first_of(rank); return f && f->begun; }
inline bool block_ended(unsigned rank) { Fiber const* const f = first_of(rank); return !f || f->state == kDone; }
// Some of what is under way arrives.
inline void arrive_some() {
  for (size_t i = 0; i < under_way.size();) {
    if (random_bits() % 8) { ++i; continue; }
    Sent const s = under_way[i];
    under_way[i] = under_way.back();
    under_way.pop_back();
    if (block_ended(s.rank)) { std::fprintf(stderr, "a store into a block that has ended\n"); std::abort(); }
    std::memcpy(s.to, &s.value, 16);
    Counting& b = counting.at(s.barrier);
    b.bytes -= 16;
    end_of_phase(b);
    quiet = 0;
  }
}
inline void nothing_under_way() {
  if (!under_way.empty()) { std::fprintf(stderr, "stores under way when all blocks had ended\n"); std::abort(); }
}
inline unsigned char* in_block(void const* mine, unsigned rank) {
  return rooms[rank]->bytes + (reinterpret_cast<unsigned char const*>(mine) - rooms[now->rank]->bytes);
}
}  // namespace uc_cpu

inline void barrier_init(uint64_t* barrier) { uc_cpu::counting[barrier] = {}; }
inline void barrier_expect(uint64_t* barrier, unsigned bytes) {
  uc_cpu::Counting& b = uc_cpu::counting.at(barrier);
  if (b.pending == 0) { std::fprintf(stderr, "a second arrival in a phase\n"); std::abort(); }
  b.pending = 0;
  b.bytes += bytes;
  uc_cpu::end_of_phase(b);
}
inline void barrier_wait(uint64_t* barrier, unsigned parity) {
  while ((uc_cpu::counting.at(barrier).phase & 1) == parity) uc_cpu::wait(uc_cpu::kPoll);
}
inline void send_remote(uint4* mine, unsigned rank, uint4 const& v, uint64_t* barrier) {
  unsigned char* const there = uc_cpu::in_block(mine, rank);
  if (!uc_cpu::block_began(rank)) { std::fprintf(stderr, "a store into a block that has not begun\n"); std::abort(); }
  if (reinterpret_cast<uintptr_t>(there) % 16) { std::fprintf(stderr, "a remote store at %p\n", static_cast<void*>(there)); std::abort(); }
  uc_cpu::under_way.push_back({there, v, uc_cpu::in_block(barrier, rank), rank});
}
