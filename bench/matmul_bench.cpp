// How fast are matrix products of the CPU backend? One token (decode) beside the machine's read bandwidth, 64 tokens
// (prefill) in multiply-adds. The largest shape is rotated over copies that exceed the last-level cache. Prints a table
// and JSON lines: the fastest of 40 runs after one warm-up, because other work on the machine only ever adds time, and
// the median for multiply-adds and bytes of one row.
//   matmul_bench [threads] [kernels]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/philox.h"
#include "base/thread_pool.h"
#include "compute/backend.h"

namespace winnow {
namespace {

constexpr int kRuns = 40;
constexpr int64_t kBeyondCache = 96 << 20;

struct Seconds {
  double best, median;
};

template <class F>
Seconds Time(F&& f) {
  std::vector<double> seconds;
  for (int i = 0; i <= kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    if (i > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[kRuns / 2]};
}

// GB/s of reading kBeyondCache bytes again and again, all threads: the roof of a product that reads its weights once.
// The memory comes from the backend, so that it has the huge pages that weights have.
double ReadBandwidth(Backend& backend, int num_threads) {
  const Buffer buffer = std::move(backend.Allocate(kBeyondCache).value());
  const Tensor all = buffer.View(DType::kI64, {kBeyondCache / 8});
  backend.Fill(all, 1);
  const auto* words = reinterpret_cast<const uint64_t*>(all.data());
  ThreadPool pool(num_threads);
  std::vector<uint64_t> sums(size_t(num_threads) * 8);
  const Seconds seconds = Time([&] {
    pool.Run([&](int thread) {
      uint64_t sum = 0;
      for (int64_t i = all.dim(0) * thread / num_threads; i < all.dim(0) * (thread + 1) / num_threads; ++i) {
        sum += words[i];
      }
      sums[size_t(thread) * 8] += sum;
    });
  });
  if (std::accumulate(sums.begin(), sums.end(), uint64_t(0)) == 0) std::abort();
  return double(kBeyondCache) / seconds.best * 1e-9;
}

constexpr const char* kJson =
    R"({{"format":"{}","outputs":{},"inputs":{},"decode_gb_s":{:.2f},"prefill_gmac_s":{:.2f}}})";

struct Shape {
  int64_t outputs, inputs;
};

void Measure(Backend& backend, DType dtype, Shape shape, double roof, std::vector<std::string>* json) {
  std::vector<std::byte> file(size_t(shape.outputs * BytesOf(dtype, shape.inputs)));
  for (size_t i = 0; i < file.size(); ++i) file[i] = std::byte(Philox(1, {uint32_t(i), 0, 0, 0})[0] & 0x3f);
  WeightSource source{dtype, file, shape.inputs, std::vector<int64_t>(size_t(shape.outputs)), 0, shape.inputs};
  std::iota(source.rows.begin(), source.rows.end(), 0);
  std::vector<std::unique_ptr<Weight>> weights;
  do {
    weights.push_back(std::move(backend.Pack(source).value()));
  } while (shape.outputs > 10000 && weights.front()->bytes() * int64_t(weights.size()) < kBeyondCache);
  size_t next = 0;
  constexpr int64_t kRows = 64;
  const Buffer x = std::move(backend.Allocate(kRows * shape.inputs * 4).value());
  const Buffer y = std::move(backend.Allocate(kRows * shape.outputs * 4).value());
  std::vector<float> values(size_t(kRows * shape.inputs));
  for (size_t i = 0; i < values.size(); ++i) values[i] = OpenUnitFloat(Philox(2, {uint32_t(i), 0, 0, 0})[0]) - 0.5f;
  backend.CopyToDevice(x.View(DType::kF32, {kRows, shape.inputs}), std::as_bytes(std::span(values)));
  const auto run = [&](int64_t rows) {
    const MatMulTarget target{weights[next++ % weights.size()].get(), y.View(DType::kF32, {rows, shape.outputs})};
    backend.MatMul(x.View(DType::kF32, {rows, shape.inputs}), std::span(&target, 1));
  };
  const Seconds one = Time([&] { run(1); }), many = Time([&] { run(kRows); });
  const double gigabytes = double(weights.front()->bytes()) * 1e-9;
  const double multiply_adds = double(kRows * shape.outputs * shape.inputs) * 1e-9;
  const std::string format(Name(dtype));
  std::printf("%-6s %6ld x %5ld  %8.1f us  %6.1f GB/s, %.2f of roof (median %5.1f)   %6.1f GMAC/s (median %5.1f)\n",
              format.c_str(), long(shape.outputs), long(shape.inputs), one.best * 1e6, gigabytes / one.best,
              gigabytes / one.best / roof, gigabytes / one.median, multiply_adds / many.best,
              multiply_adds / many.median);
  json->push_back(
      fmt::format(kJson, format, shape.outputs, shape.inputs, gigabytes / one.best, multiply_adds / many.best));
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto backend = MakeCpuBackend(threads, argc > 2 ? argv[2] : "auto");
  if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().message().c_str()), 2;
  const double roof = ReadBandwidth(**backend, threads);
  std::printf("kernels %s, threads %d, read roof (96 MiB) %.1f GB/s\n", (*backend)->kernels().c_str(), threads, roof);
  std::vector<std::string> json;
  std::printf("format   outputs x inputs  1 row: time, GB/s of weights      64 rows\n");
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ6_K, DType::kF16, DType::kF32}) {
    for (Shape shape : {Shape{576, 1536}, Shape{1536, 576}, Shape{49152, 576}}) {
      if (BlockElements(dtype) == 256) shape.inputs = shape.inputs == 576 ? 512 : 1536;
      Measure(**backend, dtype, shape, roof, &json);
    }
  }
  for (const std::string& line : json) std::puts(line.c_str());
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc, argv);
}
