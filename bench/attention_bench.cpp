// How fast is attention of the CPU backend? One row (decode) in GB/s of keys and values beside the machine's read
// bandwidth; 128 rows (prefill) in GFLOP/s. Caches are laid out as in a run: many layers, whose pages interleave,
// so that what one call reads is in no cache; 32 pages of a head lie in a row, as after a prompt, or each alone, as
// after decode. The sequential reader and the kernel alternate, so that other work on the machine meets both. Prints a
// table and JSON lines: the fastest of 30 calls beside the fastest reading, and the median of the rounds' ratios.
//   attention_bench [threads] [kernels] [quick]      quick: one shape
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/caches.h"

namespace winnow::bench {
namespace {

constexpr int kRounds = 30;

constexpr const char* kJson =
    R"({{"question":"attention","kernels":"{}","threads":{},"query_heads":{},"kv_heads":{},"head_dim":{},"dtype":"{}",)"
    R"("slots":{},"pages_in_a_row":{},"roof_gb_s":{:.2f},"decode_gb_s":{:.2f},"of_roof_best":{:.3f},"of_roof_median":{:.3f},)"
    R"("observed_percent":{:.2f},"prefill_gflop_s":{:.2f}}})";

std::string Measure(Backend& backend, SequentialReader& reader, const Shape& shape, int threads) {
  Caches caches(backend, shape);
  caches.SetRows(1);
  std::vector<double> roof_seconds, decode_seconds, observed_seconds, ratios, extra;
  const double roof_share = double(caches.bytes()) / double(reader.bytes());
  // Calls are short beside one reading: a round takes as many as make 1 ms at 30 GB/s.
  const int64_t calls = std::max<int64_t>(1, 30'000'000 / caches.bytes());
  const auto time_calls = [&](bool observe) {
    return TimeOnce([&] {
             for (int64_t i = 0; i < calls; ++i) caches.Attend(observe);
           }) /
           double(calls);
  };
  for (int round = -2; round < kRounds; ++round) {  // two warm-ups
    const double roof = TimeOnce([&] { reader.Read(); }), decode = time_calls(false), observed = time_calls(true);
    if (round < 0) continue;
    roof_seconds.push_back(roof);
    decode_seconds.push_back(decode);
    observed_seconds.push_back(observed);
    ratios.push_back(roof * roof_share / decode);
    extra.push_back(100 * (observed / decode - 1));
  }
  caches.SetRows(kPrefillRows);
  const int prefill_runs = int(std::max<int64_t>(3, int64_t(2e9 / caches.Flops() * 10)));
  const double prefill = Time(std::min(prefill_runs, 20), [&] { caches.Attend(false); }).best;
  const Seconds roof = Summary(roof_seconds), decode = Summary(decode_seconds);
  const double roof_gb_s = double(reader.bytes()) / roof.best * 1e-9;
  const double decode_gb_s = double(caches.bytes()) / decode.best * 1e-9;
  const double of_roof_median = Summary(ratios).median, observed_percent = Summary(extra).median;
  const std::string dtype(Name(shape.dtype));
  const int64_t query_heads = shape.kv_heads * shape.group;
  std::printf("%3ld / %ld x %3ld  %-4s %6ld %5ld  %7.1f us  %6.1f %6.1f   %.2f (median %.2f)   %+5.1f %%   %6.1f\n",
              long(query_heads), long(shape.kv_heads), long(shape.head_dim), dtype.c_str(), long(shape.slots),
              long(shape.pages_in_a_row), decode.best * 1e6, decode_gb_s, roof_gb_s, decode_gb_s / roof_gb_s,
              of_roof_median, observed_percent, caches.Flops() / prefill * 1e-9);
  std::fflush(stdout);
  return fmt::format(kJson, backend.kernels(), threads, query_heads, shape.kv_heads, shape.head_dim, dtype, shape.slots,
                     shape.pages_in_a_row, roof_gb_s, decode_gb_s, decode_gb_s / roof_gb_s, of_roof_median,
                     observed_percent, caches.Flops() / prefill * 1e-9);
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto backend = MakeCpuBackend(threads, argc > 2 ? argv[2] : "auto");
  if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().message().c_str()), 2;
  SequentialReader reader(**backend, threads);
  std::printf("kernels %s, threads %d; roof: %s, %ld MiB, in turn with the kernel\n", (*backend)->kernels().c_str(),
              threads, reader.Describe().c_str(), long(reader.bytes() >> 20));
  std::printf(
      "heads            cache  slots  in a row   1 row     GB/s, roof     of the roof       observed   %ld rows: "
      "GFLOP/s\n",
      long(kPrefillRows));
  std::vector<std::string> json;
  if (argc > 3 && std::strcmp(argv[3], "quick") == 0) {
    std::puts(Measure(**backend, reader, {3, 3, 64, DType::kBF16, 8192, 32}, threads).c_str());
    return 0;
  }
  for (const Shape& heads : {Shape{3, 3, 64, {}, 0, 0}, Shape{8, 4, 128, {}, 0, 0}}) {
    for (DType dtype : {DType::kBF16, DType::kF32}) {
      for (int64_t slots : {1024, 8192, 32768}) {
        // Pages as a prompt read in chunks of 512 tokens leaves them, and, at one length, as decode does.
        for (int64_t run : {32, 1}) {
          if (run == 1 && slots != 8192) continue;
          json.push_back(
              Measure(**backend, reader, {heads.kv_heads, heads.group, heads.head_dim, dtype, slots, run}, threads));
        }
      }
    }
  }
  for (const std::string& line : json) std::puts(line.c_str());
  return 0;
}

}  // namespace
}  // namespace winnow::bench

int main(int argc, char** argv) {
  return winnow::bench::Main(argc, argv);
}
