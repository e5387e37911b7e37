#include "compute/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <system_error>

#include "base/check.h"
#include "compute/cpu/kv_pages.h"
#include "compute/cpu/weight.h"

namespace winnow::cpu {
namespace {

// Far above the cores of any host, far below what a system lets one process start.
constexpr int kMaxThreads = 1024;

// Below this many elements an op is over before a second thread has woken up.
constexpr int64_t kSerialElements = 4096;

// Round to nearest even, denormals on, no traps: the contract's arithmetic. 0x1f80 is the register's state at program
// start; a library may have changed it.
void SetFloatingPointMode() {
  __builtin_ia32_ldmxcsr(0x1f80);
}

const CpuWeight& Packed(const Weight& weight) {
  return static_cast<const CpuWeight&>(weight);
}

// f(begin, end) over [0, rows), in parallel if that pays.
template <class F>
void ForRows(ThreadPool& pool, int64_t rows, int64_t elements_per_row, F&& f) {
  if (rows * elements_per_row <= kSerialElements) {
    if (rows > 0) f(int64_t(0), rows);
    return;
  }
  pool.For(rows, f);
}

MatMulJob MakeJob(const CpuWeight& weight, const Tensor& x, const ActivationBlock* activations) {
  return {.kind = weight.kind(),
          .tiles = weight.tiles(),
          .outputs = weight.rows(),
          .blocks = weight.blocks(),
          .rows = x.dim(0),
          .activations = activations,
          .x = x.as<float>()};
}

}  // namespace

CpuBackend::CpuBackend(int num_threads, const CpuKernels& kernels)
    : kernels_(kernels), pool_(num_threads), partials_(size_t(num_threads)) {
  pool_.Run([](int) { SetFloatingPointMode(); });
}

float* CpuBackend::Reserve(Memory& memory, int64_t bytes) {
  if (!memory.Grow(bytes)) throw std::bad_alloc();  // in the middle of a step, where no Status leads out
  return reinterpret_cast<float*>(memory.data());
}

Result<std::unique_ptr<Weight>> CpuBackend::Pack(const WeightSource& source) {
  const int64_t columns = source.column_end - source.column_begin;
  WINNOW_CHECK(columns >= 0 && columns % kTileInputs == 0 && source.column_begin % kTileInputs == 0);
  WINNOW_CHECK(source.column_end <= source.file_columns);
  auto weight = std::make_unique<CpuWeight>(source.dtype, int64_t(source.rows.size()), columns);
  if (!weight->Pack(source, pool_)) {
    return OutOfMemory("a weight matrix of " + std::to_string(weight->rows()) + " x " +
                       std::to_string(weight->columns()) + " needs " + std::to_string(weight->bytes()) +
                       " bytes, which could not be allocated");
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

std::byte* CpuBackend::DoAllocate(int64_t bytes) {
  return AllocateMemory(bytes);
}
void CpuBackend::DoFree(std::byte* data, int64_t bytes) {
  FreeMemory(data, bytes);
}
void CpuBackend::DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) {
  std::memcpy(to.data(), from.data(), from.size());
}
void CpuBackend::DoCopyToHost(std::span<std::byte> to, const Tensor& from) {
  std::memcpy(to.data(), from.data(), to.size());
}
void CpuBackend::DoFill(const Tensor& to, uint8_t value) {
  if (to.bytes() > 0) std::memset(to.data(), value, size_t(to.bytes()));
}

void CpuBackend::DoEmbed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) {
  const int64_t hidden = table.columns();
  ForRows(pool_, ids.dim(0), hidden, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids.as<int32_t>()[i] - first_row;
      float* to = out.as<float>() + i * hidden;
      if (row >= 0 && row < table.rows()) {
        Packed(table).Dequantise(row, to);
      } else {
        std::memset(to, 0, size_t(hidden) * sizeof(float));
      }
    }
  });
}

void CpuBackend::DoRmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) {
  const int64_t hidden = x.dim(1);
  ForRows(pool_, x.dim(0), hidden, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernels_.rms_norm(x.as<float>() + i * hidden, gain.as<float>(), epsilon, hidden, out.as<float>() + i * hidden);
    }
  });
}

const ActivationBlock* CpuBackend::QuantiseRows(const Tensor& x) {
  const int64_t columns = x.dim(1), blocks = columns / kTileInputs;
  auto* to =
      reinterpret_cast<ActivationBlock*>(Reserve(activations_, x.dim(0) * blocks * int64_t(sizeof(ActivationBlock))));
  ForRows(pool_, x.dim(0), columns, [&](int64_t begin, int64_t end) {
    kernels_.quantise(x.as<float>() + begin * columns, (end - begin) * blocks, to + begin * blocks);
  });
  return to;
}

void CpuBackend::DoMatMul(const Tensor& x, std::span<const MatMulTarget> targets) {
  if (x.dim(0) == 0) return;
  bool quantised = false;
  int64_t num_tiles = 0;
  for (const MatMulTarget& target : targets) {
    quantised |= !IsFloatKind(Packed(*target.weight).kind());
    num_tiles += Packed(*target.weight).tile_rows();
  }
  const ActivationBlock* activations = quantised ? QuantiseRows(x) : nullptr;
  // One range over the tile rows of all targets, so that small matrices share the threads.
  pool_.For(num_tiles, [&](int64_t begin, int64_t end) {
    for (const MatMulTarget& target : targets) {
      const CpuWeight& weight = Packed(*target.weight);
      const int64_t last = std::min(end, weight.tile_rows());
      if (begin < last) {
        MatMulJob job = MakeJob(weight, x, activations);
        job.out = target.out.as<float>();
        kernels_.mat_mul(job, begin, last);
      }
      begin = std::max(begin - weight.tile_rows(), int64_t(0));
      end -= weight.tile_rows();
    }
  });
}

void CpuBackend::DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns,
                                   FixedPoint fixed_point, const Tensor& sums) {
  const int64_t rows = x.dim(0), outputs = weight.rows();
  for (int64_t i = 0; i < rows; ++i) sums.as<int64_t>()[i * (outputs + 1) + outputs] = 0;
  if (rows == 0) return;
  const CpuWeight& packed = Packed(weight);
  MatMulJob job = MakeJob(packed, x, IsFloatKind(packed.kind()) ? nullptr : QuantiseRows(x));
  job.sums = sums.as<int64_t>();
  job.segment_blocks = segment_columns / kTileInputs;
  job.fixed_point = fixed_point;
  pool_.For(packed.tile_rows(), [&](int64_t begin, int64_t end) { kernels_.mat_mul(job, begin, end); });
}

void CpuBackend::DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) {
  const int64_t columns = residual.dim(1);
  const float unit = 1.0f / fixed_point.steps_per_unit;
  ForRows(pool_, residual.dim(0), columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t* sum = sums.as<int64_t>() + i * (columns + 1);
      float* to = residual.as<float>() + i * columns;
      if (sum[columns] != 0) {
        std::fill(to, to + columns, __builtin_bit_cast(float, 0x7fc00000u));
        continue;
      }
      kernels_.add_sums(sum, unit, columns, to);
    }
  });
}

void CpuBackend::DoAdd(const Tensor& x, const Tensor& residual) {
  ForRows(pool_, x.dim(0), x.dim(1), [&](int64_t begin, int64_t end) {
    const float* from = x.as<float>();
    float* to = residual.as<float>();
    for (int64_t i = begin * x.dim(1); i < end * x.dim(1); ++i) to[i] += from[i];
  });
}

void CpuBackend::DoAddBias(const Tensor& bias, const Tensor& x) {
  const int64_t columns = x.dim(1);
  ForRows(pool_, x.dim(0), columns, [&](int64_t begin, int64_t end) {
    const float* from = bias.as<float>();
    for (int64_t row = begin; row < end; ++row) {
      float* to = x.as<float>() + row * columns;
      for (int64_t i = 0; i < columns; ++i) to[i] += from[i];
    }
  });
}

void CpuBackend::DoRopeAppend(const RopeAppendArgs& args) {
  const int64_t rows = args.q.dim(0), heads = args.q.dim(1) + 2 * args.k.dim(1);
  ForRows(pool_, rows, heads * args.kv.head_dim, [&](int64_t begin, int64_t end) { RopeAppendRows(args, begin, end); });
}

void CpuBackend::DoSiluMul(const Tensor& gate, const Tensor& up) {
  // Elements are independent: 16 at a time over all rows.
  ForRows(pool_, gate.num_elements() / 16, 16, [&](int64_t begin, int64_t end) {
    kernels_.silu_mul(gate.as<float>() + 16 * begin, up.as<float>() + 16 * begin, 16 * (end - begin));
  });
}

void CpuBackend::DoFlagNotFinite(const Tensor& x, const Tensor& flags) {
  const int64_t width = x.dim(1);
  ForRows(pool_, x.dim(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* values = x.as<float>() + row * width;
      bool is_finite = true;
      for (int64_t i = 0; i < width; ++i) is_finite &= std::isfinite(values[i]);
      flags.as<int32_t>()[row] = !is_finite;
    }
  });
}

void CpuBackend::DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    const int64_t row = indices.as<int32_t>()[i];
    WINNOW_CHECK(row >= 0 && row < x.dim(0));
    std::memcpy(out.as<float>() + i * width, x.as<float>() + row * width, size_t(width) * sizeof(float));
  }
}

void CpuBackend::DoZeroRows(const Tensor& x, const Tensor& indices) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    const int64_t row = indices.as<int32_t>()[i];
    WINNOW_CHECK(row >= 0 && row < x.dim(0));
    std::fill_n(x.as<int64_t>() + row * width, width, int64_t(0));
  }
}

void CpuBackend::DoCompact(const CompactArgs& args) {
  if (args.mass.data() != nullptr) CompactMass(args);
  // Dimensions move independently of each other: each thread does all moves in order for its own.
  const int64_t pairs = args.kv.head_dim / 2;
  ForRows(pool_, pairs, 2 * args.moves.dim(0),
          [&](int64_t begin, int64_t end) { CompactDimensions(args, 2 * begin, 2 * end); });
}

void CpuBackend::DoReadSlots(const SlotArgs& args) {
  ForRows(pool_, args.physical_slots.dim(0), 2 * args.kv.head_dim,
          [&](int64_t begin, int64_t end) { ReadSlotRange(args, begin, end); });
}

void CpuBackend::DoWriteSlots(const SlotArgs& args) {
  ForRows(pool_, args.physical_slots.dim(0), 2 * args.kv.head_dim,
          [&](int64_t begin, int64_t end) { WriteSlotRange(args, begin, end); });
}

}  // namespace winnow::cpu

namespace winnow {

Result<std::unique_ptr<Backend>> MakeCpuBackend(int num_threads, const std::string& kernels) {
  if (num_threads < 1 || num_threads > cpu::kMaxThreads) {
    return InvalidArgument("threads: expected 1 to " + std::to_string(cpu::kMaxThreads) + ", found " +
                           std::to_string(num_threads));
  }
  std::string known = "auto";
  for (const cpu::KernelSet& set : cpu::KernelSets()) {
    if (kernels == set.name && !set.runs_here) {
      return InvalidArgument("kernels: " + kernels + " was asked for, but this CPU does not have it");
    }
    if (kernels == set.name || (kernels == "auto" && set.runs_here)) {
      try {
        return std::unique_ptr<Backend>(std::make_unique<cpu::CpuBackend>(num_threads, set.get()));
      } catch (const std::system_error& error) {
        return OutOfMemory(std::to_string(num_threads) + " threads could not be started (" + error.what() +
                           "): give fewer --threads");
      }
    }
    known += std::string(", ") + set.name;
  }
  return InvalidArgument("kernels: expected one of " + known + "; found \"" + kernels + "\"");
}

}  // namespace winnow
