// The guard backend: memory is closed outside ops, and ops give the bits of the backend inside.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/compute/device_tensors.h"
#include "tests/compute/random_weight.h"

namespace winnow {
namespace {

// Sanitizers catch the signal, report it and exit.
bool SegmentationFault(int status) {
  return testing::KilledBySignal(SIGSEGV)(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}
#define EXPECT_SEGFAULT(statement) EXPECT_EXIT(statement, SegmentationFault, "")

std::unique_ptr<Backend> MakeInner() {
  return MakeReferenceBackend(ReferenceArithmetic::kQuantised);
}

class GuardBackendTest : public testing::Test {
 protected:
  static float Read(const Tensor& tensor, int64_t index = 0) {
    return *const_cast<volatile float*>(tensor.as<float>() + index);
  }
  static void Write(const Tensor& tensor, int64_t index = 0) {
    *const_cast<volatile float*>(tensor.as<float>() + index) = 1;
  }

  std::unique_ptr<Backend> guard_ = MakeGuardBackend(MakeInner());
  DeviceTensors tensors_{*guard_};
};
using GuardBackendDeathTest = GuardBackendTest;

TEST_F(GuardBackendTest, NamesTheBackendInside) {
  EXPECT_EQ(guard_->name(), "guard(reference)");
  EXPECT_EQ(guard_->kernels(), "quantised");
}

TEST_F(GuardBackendTest, BuffersAreAlignedZeroedCountedAndGivenBack) {
  for (int64_t bytes : {0, 4, 4096, 4100, 100000}) {
    const Buffer buffer = std::move(guard_->Allocate(bytes).value());
    EXPECT_EQ(guard_->bytes_allocated(), bytes);
    const Tensor tensor = buffer.View(DType::kF32, {bytes / 4});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    EXPECT_EQ(tensors_.Get(tensor), std::vector<float>(size_t(bytes / 4), 0.0f));
  }
  EXPECT_EQ(guard_->bytes_allocated(), 0);
}

TEST_F(GuardBackendTest, AnAllocationThatCannotBeIsAnError) {
  EXPECT_EQ(guard_->Allocate(int64_t(1) << 60).status().code(), StatusCode::kOutOfMemory);
}

TEST_F(GuardBackendDeathTest, MemoryIsClosedBeforeAndAfterAnOp) {
  const Tensor x = tensors_.Floats({1, 16}, std::vector<float>(16, 1.0f));
  const Tensor up = tensors_.Floats({1, 16}, std::vector<float>(16, 1.0f));
  EXPECT_SEGFAULT(Read(x));
  guard_->SiluMul(x, up);
  EXPECT_SEGFAULT(Read(x));
  EXPECT_SEGFAULT(Write(up));
  EXPECT_NEAR(tensors_.Get(x)[3], 0.7310586, 1e-6);
}

TEST_F(GuardBackendDeathTest, TransfersOpenAndNest) {
  const Tensor x = tensors_.Floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  guard_->BeginTransfer(x);
  guard_->BeginTransfer(x.Rows(1, 2));
  EXPECT_EQ(Read(x, 7), 8);
  guard_->EndTransfer(x.Rows(1, 2));
  Write(x);
  guard_->SiluMul(tensors_.Empty(DType::kF32, {1, 16}), tensors_.Empty(DType::kF32, {1, 16}));
  EXPECT_EQ(Read(x), 1);
  guard_->EndTransfer(x);
  EXPECT_SEGFAULT(Read(x));
  EXPECT_DEATH(guard_->EndTransfer(x), "every EndTransfer follows a BeginTransfer");
}

TEST_F(GuardBackendDeathTest, TensorsMustLieInsideOneBuffer) {
  const Tensor x = tensors_.Floats({1, 16}, std::vector<float>(16, 1.0f));
  std::vector<float> host(64);
  const Tensor on_host(reinterpret_cast<std::byte*>(host.data()), DType::kF32, {1, 16});
  const Tensor too_long(x.data(), DType::kF32, {2, 16});
  const Tensor before(x.data() - 64, DType::kF32, {1, 16});
  for (const Tensor& bad : {on_host, too_long, before}) {
    EXPECT_DEATH(guard_->Fill(bad, 0), "the tensor lies inside one buffer of this backend");
  }
  EXPECT_DEATH(guard_->SiluMul(x, on_host), "the tensor lies inside one buffer of this backend");
}

TEST_F(GuardBackendDeathTest, RunningOverEitherEndDiesEvenDuringATransfer) {
  const Tensor x = tensors_.Empty(DType::kF32, {1024});
  guard_->BeginTransfer(x);
  EXPECT_EQ(Read(x, 1023), 0);
  EXPECT_SEGFAULT(Read(x, 1024));
  EXPECT_SEGFAULT(Write(x, -1));
  guard_->EndTransfer(x);
}

// The op reads the first half of a buffer and is told to write into the second.
TEST_F(GuardBackendDeathTest, InputsOfAnOpAreReadOnly) {
  const Tensor x = tensors_.Empty(DType::kF32, {2, 16});
  const std::span<std::byte> second_half(x.At(1).data(), 64);
  EXPECT_SEGFAULT(guard_->CopyToHost(second_half, x.At(0)));
}

TEST_F(GuardBackendDeathTest, BuffersMustNotBeFreedWhileOpen) {
  EXPECT_DEATH(
      {
        const Buffer buffer = std::move(guard_->Allocate(64).value());
        guard_->BeginTransfer(buffer.View(DType::kF32, {16}));
      },
      "a buffer is closed before it is freed");
}

// Every op once, on the guard and on the backend inside it; returns all outputs.
std::vector<float> RunEveryOp(Backend& backend) {
  DeviceTensors tensors(backend);
  std::vector<float> all;
  const auto collect = [&](const Tensor& tensor) {
    const std::vector<float> values = tensors.Get(tensor);
    all.insert(all.end(), values.begin(), values.end());
  };
  const KvLayout kv{16, DType::kBF16};
  const Tensor pages = tensors.Empty(DType::kF32, {2 * kv.page_bytes() / 4});
  const Tensor x = tensors.Empty(DType::kF32, {2, 64}), y = tensors.Empty(DType::kF32, {2, 64});
  const Tensor sums = tensors.Empty(DType::kI64, {2, 65});
  const std::unique_ptr<Weight> weight = RandomMatrix(DType::kQ4_1, 64, 64, 3).Pack(backend);
  const FixedPoint fixed{0x1p36f, 0x1p20f};
  backend.Embed(*weight, 0, tensors.Ints({2}, {5, 63}), x);
  backend.RmsNorm(x, tensors.Floats({64}, RandomFloats(1, 64)), 1e-5f, y);
  collect(y);
  const MatMulTarget targets[] = {{weight.get(), x}, {weight.get(), tensors.Empty(DType::kF32, {2, 64})}};
  backend.MatMul(y, targets);
  collect(targets[1].out);
  backend.MatMulSegmented(y, *weight, 32, fixed, sums);
  backend.AddFixedPoint(sums, fixed, x);
  backend.Add(y, x);
  backend.AddBias(tensors.Floats({64}, RandomFloats(6, 64)), x);
  backend.SiluMul(x, y);
  collect(x);
  const Tensor q = tensors.Floats({2, 4, 16}, RandomFloats(2, 128)),
               k = tensors.Floats({2, 1, 16}, RandomFloats(4, 32));
  const Tensor cos_sin = tensors.Floats({2, 16}, RandomFloats(5, 32)), slots = tensors.Ints({2, 1}, {17, 18});
  const Tensor moves = tensors.Ints({2, 2}, {17, 16, 18, 17}), mass = tensors.Empty(DType::kI64, {2, 16});
  const Tensor out = tensors.Empty(DType::kF32, {2, 4, 16});
  const AttentionArgs attention = {
      q, out, tensors.Ints({1, 1, 1}, {1}), tensors.Ints({2}, {0, 0}), tensors.Ints({2, 1}, {1, 2}), pages, kv};
  backend.RopeAppend({q, k, k, cos_sin, slots, pages, kv, 0.5f});
  backend.Compact({moves, pages, kv});
  backend.Attention(attention);
  collect(q);
  collect(out);
  AttentionArgs observed = attention;
  observed.observe = tensors.Ints({2}, {0, 1}), observed.mass = mass;
  backend.Fill(mass, 0x11);
  backend.RopeAppend({q, k, k, cos_sin, slots, pages, kv, 0.5f, mass});
  backend.Compact({moves, pages, kv, mass});
  backend.Attention(observed);
  backend.ZeroRows(mass, tensors.Ints({1}, {0}));
  const Tensor list = tensors.Ints({2}, {18, 3}), rows = tensors.Floats({2, 16}, RandomFloats(6, 32));
  const Tensor keys = tensors.Empty(DType::kF32, {2, 16}), values = tensors.Empty(DType::kF32, {2, 16});
  backend.WriteSlots({list, rows, rows, pages, kv, mass, tensors.Put<int64_t>(DType::kI64, {2}, {5, 6})});
  backend.ReadSlots({list, keys, values, pages, kv});
  collect(keys);
  collect(values);
  for (int64_t steps : tensors.Get<int64_t>(mass)) all.push_back(float(steps));
  backend.GatherRows(x, tensors.Ints({1}, {1}), y.Rows(0, 1));
  collect(y);
  return all;
}

TEST_F(GuardBackendTest, OpsGiveTheBitsOfTheBackendInside) {
  const std::unique_ptr<Backend> inner = MakeInner();
  ExpectSameFloats(RunEveryOp(*guard_), RunEveryOp(*inner));
  EXPECT_EQ(guard_->work().matmul_flops, inner->work().matmul_flops);
}

}  // namespace
}  // namespace winnow
