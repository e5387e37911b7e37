// How fast is attention of the CPU backend? One row (decode) in GB/s of keys and values beside the machine's read
// bandwidth; 128 rows (prefill) in GFLOP/s. Caches are laid out as in a run: many layers, whose pages interleave as
// decode takes them from the pool, so that what one call reads is in no cache and no two pages lie side by side. The
// sequential reader and the kernel alternate, so that other work on the machine meets both. Prints a table and JSON
// lines: the fastest of 30 calls beside the fastest reading, and the median of the rounds' ratios.
//   attention_bench [threads] [kernels]
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/philox.h"
#include "bench/measure.h"

namespace winnow::bench {
namespace {

constexpr int kRounds = 30;
constexpr int64_t kPrefillRows = 128;

struct Shape {
  int64_t kv_heads, group, head_dim;
  DType dtype;
  int64_t slots;
};

// One sequence's keys and values in enough layers to exceed the last-level cache, and the ops on them.
class Caches {
 public:
  Caches(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), kv_{shape.head_dim, shape.dtype}, pages_per_head_(shape.slots / kPageSlots) {
    const int64_t layer_bytes = shape.kv_heads * pages_per_head_ * kv_.page_bytes();
    layers_ = (BeyondCacheBytes() + layer_bytes - 1) / layer_bytes;
    const int64_t num_pages = layers_ * shape.kv_heads * pages_per_head_;
    pages_ = Make(num_pages * kv_.page_bytes());
    mass_ = Make(num_pages * kPageSlots * 8);
    FillPages(num_pages);
    std::vector<int32_t> table;
    for (int64_t layer = 0; layer < layers_; ++layer) {
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        for (int64_t i = 0; i < pages_per_head_; ++i) {
          table.push_back(int32_t((i * layers_ + layer) * shape.kv_heads + head));
        }
      }
    }
    table_ = Make(int64_t(table.size()) * 4);
    Upload(table_, DType::kI32, table);
    const int64_t floats = kPrefillRows * shape.kv_heads * shape.group * shape.head_dim;
    q_ = Make(floats * 4);
    out_ = Make(floats * 4);
    Upload(q_, DType::kF32, RandomFloats(floats));
    row_sequence_ = Make(kPrefillRows * 4);
    visible_ = Make(kPrefillRows * shape.kv_heads * 4);
    observe_ = Make(kPrefillRows * 4);
    Upload(observe_, DType::kI32, std::vector<int32_t>(size_t(kPrefillRows), 1));
  }

  // Keys and values of one call.
  int64_t bytes() const { return shape_.kv_heads * pages_per_head_ * kv_.page_bytes(); }

  // The calls that follow are of `rows` rows, the last of which sees all slots.
  void SetRows(int64_t rows) {
    rows_ = rows;
    std::vector<int32_t> visible;
    for (int64_t row = 0; row < rows; ++row) {
      visible.insert(visible.end(), size_t(shape_.kv_heads), int32_t(shape_.slots - rows + 1 + row));
    }
    Upload(visible_, DType::kI32, visible);
  }

  // Multiplications and additions of one call.
  double Flops() const {
    const double visible = double(shape_.slots) - double(rows_ - 1) / 2;
    return 4 * visible * double(rows_ * shape_.kv_heads * shape_.group * shape_.head_dim);
  }

  // One call, on the next layer.
  void Attend(bool observe) {
    const int64_t heads = shape_.kv_heads * shape_.group;
    const Tensor tables = table_.View(DType::kI32, {layers_, shape_.kv_heads, pages_per_head_});
    AttentionArgs args = {.q = q_.View(DType::kF32, {rows_, heads, shape_.head_dim}),
                          .out = out_.View(DType::kF32, {rows_, heads, shape_.head_dim}),
                          .page_table = tables.Rows(next_++ % layers_, 1),
                          .row_sequence = row_sequence_.View(DType::kI32, {rows_}),
                          .visible = visible_.View(DType::kI32, {rows_, shape_.kv_heads}),
                          .pages = pages_.View(DType::kF32, {pages_.bytes() / 4}),
                          .kv = kv_};
    if (observe) {
      args.observe = observe_.View(DType::kI32, {rows_});
      args.mass = mass_.View(DType::kI64, {mass_.bytes() / (kPageSlots * 8), kPageSlots});
    }
    backend_.Attention(args);
  }

 private:
  Buffer Make(int64_t bytes) { return std::move(backend_.Allocate(bytes).value()); }

  template <class T>
  void Upload(const Buffer& to, DType dtype, const std::vector<T>& values) {
    backend_.CopyToDevice(to.View(dtype, {int64_t(values.size())}), std::as_bytes(std::span(values)));
  }

  static std::vector<float> RandomFloats(int64_t count) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(OpenUnitFloat(Philox(1, {uint32_t(i), 0, 0, 0})[0]) - 0.5f);
    return values;
  }

  // The same random page again and again: only its bytes' number counts, and softmax sees ordinary scores.
  void FillPages(int64_t num_pages) {
    std::vector<std::byte> page(size_t(kv_.page_bytes()));
    const std::vector<float> values = RandomFloats(2 * kPageSlots * shape_.head_dim);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&values[i]);  // bfloat16 is the upper half of a float
      if (shape_.dtype == DType::kBF16) {
        std::copy(bytes + 2, bytes + 4, &page[2 * i]);
      } else {
        std::copy(bytes, bytes + 4, &page[4 * i]);
      }
    }
    const Tensor all = pages_.View(DType::kF32, {num_pages, kv_.page_bytes() / 4});
    for (int64_t i = 0; i < num_pages; ++i) backend_.CopyToDevice(all.Rows(i, 1), page);
  }

  Backend& backend_;
  const Shape shape_;
  const KvLayout kv_;
  const int64_t pages_per_head_;
  int64_t layers_ = 0, rows_ = 0, next_ = 0;
  Buffer pages_, mass_, table_, q_, out_, row_sequence_, visible_, observe_;
};

constexpr const char* kJson =
    R"({{"question":"attention","kernels":"{}","threads":{},"query_heads":{},"kv_heads":{},"head_dim":{},"dtype":"{}",)"
    R"("slots":{},"roof_gb_s":{:.2f},"decode_gb_s":{:.2f},"of_roof_best":{:.3f},"of_roof_median":{:.3f},)"
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
  std::printf("%3ld / %ld x %3ld  %-4s %6ld  %7.1f us  %6.1f %6.1f   %.2f (median %.2f)   %+5.1f %%   %6.1f\n",
              long(query_heads), long(shape.kv_heads), long(shape.head_dim), dtype.c_str(), long(shape.slots),
              decode.best * 1e6, decode_gb_s, roof_gb_s, decode_gb_s / roof_gb_s, of_roof_median, observed_percent,
              caches.Flops() / prefill * 1e-9);
  std::fflush(stdout);
  return fmt::format(kJson, backend.kernels(), threads, query_heads, shape.kv_heads, shape.head_dim, dtype, shape.slots,
                     roof_gb_s, decode_gb_s, decode_gb_s / roof_gb_s, of_roof_median, observed_percent,
                     caches.Flops() / prefill * 1e-9);
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto backend = MakeCpuBackend(threads, argc > 2 ? argv[2] : "auto");
  if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().message().c_str()), 2;
  SequentialReader reader(**backend, threads);
  std::printf("kernels %s, threads %d; roof: %s, %ld MiB, in turn with the kernel\n", (*backend)->kernels().c_str(),
              threads, reader.Describe().c_str(), long(reader.bytes() >> 20));
  std::printf(
      "heads            cache  slots   1 row     GB/s, roof     of the roof       observed   %ld rows: GFLOP/s\n",
      long(kPrefillRows));
  std::vector<std::string> json;
  for (const Shape& heads : {Shape{3, 3, 64, {}, 0}, Shape{8, 4, 128, {}, 0}}) {
    for (DType dtype : {DType::kBF16, DType::kF32}) {
      for (int64_t slots : {1024, 8192, 32768}) {
        json.push_back(
            Measure(**backend, reader, {heads.kv_heads, heads.group, heads.head_dim, dtype, slots}, threads));
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
