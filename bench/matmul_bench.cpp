// How fast are matrix products of the CPU backend? One token (decode) beside the machine's read bandwidth, 64 tokens
// (prefill) in multiply-adds. The largest shape is rotated over copies that exceed the last-level cache. Prints a table
// and JSON lines: the fastest of 40 runs after one warm-up, because other work on the machine only ever adds time, and
// the median for multiply-adds and bytes of one row. Last, what exact sums of segments cost beside float sums.
//   matmul_bench [threads] [kernels] [sums]      sums: only the last
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/philox.h"
#include "bench/measure.h"

namespace winnow::bench {
namespace {

constexpr int kRuns = 40;
constexpr const char* kJson =
    R"({{"format":"{}","outputs":{},"inputs":{},"decode_gb_s":{:.2f},"prefill_gmac_s":{:.2f}}})";

constexpr const char* kSegmentedJson =
    R"({{"question":"exact sums","outputs":{},"inputs":{},"segment_columns":{},"rows":512,"float_us":{:.0f},)"
    R"("exact_us":{:.0f},"add_float_us":{:.0f},"add_exact_us":{:.0f}}})";

struct Shape {
  int64_t outputs, inputs;
};

WeightSource SourceOf(std::vector<std::byte>& file, DType dtype, Shape shape) {
  file.resize(size_t(shape.outputs * BytesOf(dtype, shape.inputs)));
  for (size_t i = 0; i < file.size(); ++i) file[i] = std::byte(Philox(1, {uint32_t(i), 0, 0, 0})[0] & 0x3f);
  WeightSource source{dtype, file, shape.inputs, std::vector<int64_t>(size_t(shape.outputs)), 0, shape.inputs};
  std::iota(source.rows.begin(), source.rows.end(), 0);
  return source;
}

Buffer RandomInput(Backend& backend, int64_t rows, int64_t columns) {
  Buffer x = std::move(backend.Allocate(rows * columns * 4).value());
  std::vector<float> values(size_t(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = OpenUnitFloat(Philox(2, {uint32_t(i), 0, 0, 0})[0]) - 0.5f;
  backend.CopyToDevice(x.View(DType::kF32, {rows, columns}), std::as_bytes(std::span(values)));
  return x;
}

// What exact sums cost: products of 512 rows as float sums and as integer sums of segments, and what adds either to the
// residual.
void MeasureSegmented(Backend& backend, Shape shape, int64_t segment_columns, std::vector<std::string>* json) {
  constexpr FixedPoint kFixedPoint{0x1p36f, 0x1p20f};
  constexpr int64_t kRows = 512;
  std::vector<std::byte> file;
  const std::unique_ptr<Weight> weight = std::move(backend.Pack(SourceOf(file, DType::kQ4_1, shape)).value());
  const Buffer x = RandomInput(backend, kRows, shape.inputs);
  const Buffer y = std::move(backend.Allocate(kRows * shape.outputs * 4).value());
  const Buffer s = std::move(backend.Allocate(kRows * (shape.outputs + 1) * 8).value());
  const Tensor input = x.View(DType::kF32, {kRows, shape.inputs}), out = y.View(DType::kF32, {kRows, shape.outputs});
  const Tensor sums = s.View(DType::kI64, {kRows, shape.outputs + 1});
  const MatMulTarget target{weight.get(), out};
  const double microseconds[] = {
      Time(kRuns,
           [&] {
             backend.MatMul(input, {&target, 1});
           }).best *
          1e6,
      Time(kRuns, [&] { backend.MatMulSegmented(input, *weight, segment_columns, kFixedPoint, sums); }).best * 1e6,
      Time(kRuns, [&] { backend.Add(out, out); }).best * 1e6,
      Time(kRuns, [&] { backend.AddFixedPoint(sums, kFixedPoint, out); }).best * 1e6};
  std::printf(
      "%ld x %ld, 512 rows, segments of %ld: float %.0f us, exact %.0f us (%.2f); to the residual %.0f, %.0f us\n",
      long(shape.outputs), long(shape.inputs), long(segment_columns), microseconds[0], microseconds[1],
      microseconds[1] / microseconds[0], microseconds[2], microseconds[3]);
  json->push_back(fmt::format(kSegmentedJson, shape.outputs, shape.inputs, segment_columns, microseconds[0],
                              microseconds[1], microseconds[2], microseconds[3]));
}

void Measure(Backend& backend, DType dtype, Shape shape, double roof, std::vector<std::string>* json) {
  std::vector<std::byte> file;
  const WeightSource source = SourceOf(file, dtype, shape);
  std::vector<std::unique_ptr<Weight>> weights;
  do {
    weights.push_back(std::move(backend.Pack(source).value()));
  } while (shape.outputs > 10000 && weights.front()->bytes() * int64_t(weights.size()) < BeyondCacheBytes());
  size_t next = 0;
  constexpr int64_t kRows = 64;
  const Buffer x = RandomInput(backend, kRows, shape.inputs);
  const Buffer y = std::move(backend.Allocate(kRows * shape.outputs * 4).value());
  const auto run = [&](int64_t rows) {
    const MatMulTarget target{weights[next++ % weights.size()].get(), y.View(DType::kF32, {rows, shape.outputs})};
    backend.MatMul(x.View(DType::kF32, {rows, shape.inputs}), std::span(&target, 1));
  };
  const Seconds one = Time(kRuns, [&] { run(1); }), many = Time(kRuns, [&] { run(kRows); });
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

void MeasureFormats(Backend& backend, int threads, std::vector<std::string>* json) {
  SequentialReader reader(backend, threads);
  const double roof = ReadBandwidth(reader);
  std::printf("kernels %s, threads %d; read roof %.1f GB/s: %s, %ld MiB\n", backend.kernels().c_str(), threads, roof,
              reader.Describe().c_str(), long(reader.bytes() >> 20));
  std::printf("format   outputs x inputs  1 row: time, GB/s of weights      64 rows\n");
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ6_K, DType::kF16, DType::kF32}) {
    for (Shape shape : {Shape{576, 1536}, Shape{1536, 576}, Shape{49152, 576}}) {
      if (BlockElements(dtype) == 256) shape.inputs = shape.inputs == 576 ? 512 : 1536;
      Measure(backend, dtype, shape, roof, json);
    }
  }
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto backend = MakeCpuBackend(threads, argc > 2 ? argv[2] : "auto");
  if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().message().c_str()), 2;
  std::vector<std::string> json;
  if (argc <= 3 || std::string(argv[3]) != "sums") MeasureFormats(**backend, threads, &json);
  MeasureSegmented(**backend, {576, 576}, 64, &json);  // o_proj and down_proj of SmolLM2-135M
  MeasureSegmented(**backend, {576, 1536}, 128, &json);
  for (const std::string& line : json) std::puts(line.c_str());
  return 0;
}

}  // namespace
}  // namespace winnow::bench

int main(int argc, char** argv) {
  return winnow::bench::Main(argc, argv);
}
