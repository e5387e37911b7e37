// What the programs of this folder share: times of repeated runs, and the read bandwidth of this machine's memory as
// the roof of whatever reads its data once. Header only; one thread calls it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "compute/backend.h"

namespace winnow::bench {

// What is read again and again must not fit into the last-level cache, or its reads are of no memory: 96 MiB is three
// times the 32 MiB that one group of cores shares on the widest machines of today. WINNOW_BENCH_MIB overrides it.
inline int64_t BeyondCacheBytes() {
  const char* mebibytes = std::getenv("WINNOW_BENCH_MIB");
  return int64_t(mebibytes != nullptr ? std::atoi(mebibytes) : 96) << 20;
}

struct Seconds {
  double best, median;
};

inline Seconds Summary(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

template <class F>
double TimeOnce(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One warm-up and `runs` runs.
template <class F>
Seconds Time(int runs, F&& f) {
  f();
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) seconds.push_back(TimeOnce(f));
  return Summary(std::move(seconds));
}

// Reads memory from the backend (so that it has the huge pages that weights and caches have) front to back, every
// thread its own range: four chains of 32-byte loads, with software prefetch or without, whichever is faster on this
// machine when the reader is made.
class SequentialReader {
 public:
  SequentialReader(Backend& backend, int num_threads)
      : pool_(num_threads), buffer_(std::move(backend.Allocate(BeyondCacheBytes()).value())) {
    backend.Fill(All(), 1);
    std::vector<std::pair<double, int>> tried;
    for (int distance : {0, 1024, 2048, 4096, 8192}) {
      prefetch_bytes_ = distance;
      tried.emplace_back(Time(5, [&] { Read(); }).best, distance);
    }
    prefetch_bytes_ = std::min_element(tried.begin(), tried.end())->second;
  }

  int64_t bytes() const { return buffer_.bytes(); }
  std::string Describe() const {
    return "sequential 32-byte loads, " +
           (prefetch_bytes_ == 0 ? "no software prefetch" : "prefetch " + std::to_string(prefetch_bytes_) + " B ahead");
  }

  // Reads everything once.
  void Read() {
    const Tensor all = All();
    const auto* lines = reinterpret_cast<const Line*>(all.data());
    const int64_t count = bytes() / int64_t(sizeof(Line));
    std::vector<uint64_t> sums(size_t(pool_.num_threads()) * 8);
    pool_.Run([&](int thread) {
      const int64_t begin = count * thread / pool_.num_threads(), end = count * (thread + 1) / pool_.num_threads();
      sums[size_t(thread) * 8] = prefetch_bytes_ == 0 ? Sum(lines + begin, lines + end, NoPrefetch())
                                                      : Sum(lines + begin, lines + end, Prefetch{prefetch_bytes_});
    });
    for (int thread = 0; thread < pool_.num_threads(); ++thread) {
      if (sums[size_t(thread) * 8] == 0) std::abort();  // also keeps the compiler from leaving the reads out
    }
  }

 private:
  using Vector [[gnu::vector_size(32)]] = uint64_t;
  struct Line {
    Vector v[4];  // two cache lines
  };
  struct NoPrefetch {
    void operator()(const Line*) const {}
  };
  struct Prefetch {
    int64_t distance;
    void operator()(const Line* line) const {
      const char* ahead = reinterpret_cast<const char*>(line) + distance;
      __builtin_prefetch(ahead, 0, 2);  // into the second-level cache
      __builtin_prefetch(ahead + 64, 0, 2);
    }
  };

  template <class F>
  static uint64_t Sum(const Line* begin, const Line* end, F prefetch) {
    Vector a = {}, b = {}, c = {}, d = {};
    for (; begin < end; ++begin) {
      prefetch(begin);
      a += begin->v[0];
      b += begin->v[1];
      c += begin->v[2];
      d += begin->v[3];
    }
    const Vector sum = (a + b) + (c + d);
    return sum[0] + sum[1] + sum[2] + sum[3];
  }

  Tensor All() const { return buffer_.View(DType::kI64, {bytes() / 8}); }

  ThreadPool pool_;
  Buffer buffer_;
  int prefetch_bytes_ = 0;
};

// GB/s of the reader, the fastest of 40.
inline double ReadBandwidth(SequentialReader& reader) {
  return double(reader.bytes()) / Time(40, [&] { reader.Read(); }).best * 1e-9;
}

}  // namespace winnow::bench
