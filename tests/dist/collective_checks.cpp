#include "tests/dist/collective_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "base/philox.h"
#include "compute/backend.h"

namespace winnow {
namespace {

// What rank `rank` brings at `index`: known to everyone, so that everyone can tell what must come out.
template <class T>
T Value(int rank, int64_t index) {
  const PhiloxBlock block = Philox(7, {uint32_t(index), uint32_t(rank), 0, 0});
  const uint64_t bits = (uint64_t(block[0]) << 32) | block[1];
  if constexpr (std::is_floating_point_v<T>) {
    return T(OpenUnitFloat(block[0]) - 0.5f);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return bits;  // sums wrap
  } else {
    return T(int64_t(bits) >> (sizeof(T) == 8 ? 8 : 40));  // room for 128 of them
  }
}

class Checker {
 public:
  explicit Checker(Communicator& communicator)
      : communicator_(communicator), rank_(communicator.rank()), size_(communicator.size()) {}

  const std::vector<std::string>& failures() const { return failures_; }

  void Expect(bool ok, const std::string& what) {
    if (!ok) failures_.push_back(what);
  }

  template <class T>
  void AllReduce(ReduceOp op, int64_t count, const std::string& type) {
    std::vector<T> values(count), expected(count);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = Value<T>(rank_, i);
      T result = Value<T>(0, i);
      for (int rank = 1; rank < size_; ++rank) {
        const T other = Value<T>(rank, i);
        if (op == ReduceOp::kSum) result = T(result + other);
        if (op == ReduceOp::kMax) result = std::max(result, other);
        if (op == ReduceOp::kMin) result = std::min(result, other);
      }
      expected[i] = result;
    }
    communicator_.AllReduce(std::span(values), op);
    Expect(values == expected,
           "all-reduce of " + std::to_string(count) + " " + type + ", op " + std::to_string(int(op)));
  }

  template <class T>
  void AllReduces(const std::string& type) {
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      if constexpr (std::is_integral_v<T>) AllReduce<T>(ReduceOp::kSum, count, type);
      AllReduce<T>(ReduceOp::kMax, count, type);
      AllReduce<T>(ReduceOp::kMin, count, type);
    }
  }

  // Which of two equal zeros wins would depend on the order of ranks; so none keeps its sign.
  template <class T>
  void SignedZeros() {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      std::vector<T> values = {rank_ % 2 == 0 ? T(-0.0) : T(0.0), rank_ % 2 == 0 ? T(0.0) : T(-0.0), T(-0.0)};
      communicator_.AllReduce(std::span(values), op);
      for (const T value : values) Expect(value == 0 && !std::signbit(value), "a zero kept its sign");
    }
  }

  void LongAllReduce(int64_t count) {
    std::vector<int64_t> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = i * (rank_ + 1);
    communicator_.AllReduce(std::span(values), ReduceOp::kSum);
    bool ok = true;
    for (int64_t i = 0; i < count; ++i) ok = ok && values[i] == i * size_ * (size_ + 1) / 2;
    Expect(ok, "all-reduce of " + std::to_string(count) + " int64");
  }

  // On the guard backend, which ends the program if memory is reached outside of the transfer or is left open.
  void DeviceAllReduce() {
    const auto backend = MakeGuardBackend(MakeReferenceBackend(ReferenceArithmetic::kQuantised));
    DeviceAllReduce<int32_t>(*backend, DType::kI32, ReduceOp::kMax, size_);
    DeviceAllReduce<int64_t>(*backend, DType::kI64, ReduceOp::kSum, size_ * (size_ + 1) / 2);
  }

  // Rank r brings i * (r + 1), everyone gets i * factor.
  template <class T>
  void DeviceAllReduce(Backend& backend, DType dtype, ReduceOp op, T factor) {
    std::vector<T> values(30), expected(30);
    for (int i = 0; i < 30; ++i) {
      values[i] = i * (rank_ + 1);
      expected[i] = i * factor;
    }
    Buffer buffer = backend.Allocate(30 * sizeof(T)).value();
    const Tensor tensor = buffer.View(dtype, {5, 6});
    backend.CopyToDevice(tensor, std::as_bytes(std::span(values)));
    communicator_.AllReduce(backend, tensor, op);
    backend.CopyToHost(std::as_writable_bytes(std::span(values)), tensor);
    Expect(values == expected, "all-reduce of device memory, op " + std::to_string(int(op)));
  }

  // Near the true sum, and the same bits on every rank, though those may change with the rank count.
  void FastFloatSum() {
    constexpr int64_t kCount = 1000;
    const auto backend = MakeGuardBackend(MakeReferenceBackend(ReferenceArithmetic::kQuantised));
    std::vector<float> values(kCount), sums(kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      values[i] = Value<float>(rank_, i);
      for (int rank = 0; rank < size_; ++rank) sums[i] += Value<float>(rank, i);
    }
    Buffer buffer = backend->Allocate(kCount * sizeof(float)).value();
    const Tensor tensor = buffer.View(DType::kF32, {kCount});
    backend->CopyToDevice(tensor, std::as_bytes(std::span(values)));
    communicator_.FastFloatSum(*backend, tensor);
    backend->CopyToHost(std::as_writable_bytes(std::span(values)), tensor);
    bool is_near = true;
    for (int64_t i = 0; i < kCount; ++i) is_near = is_near && std::abs(values[i] - sums[i]) < 1e-5f;
    Expect(is_near, "the float sum of device memory");
    const std::vector<std::byte> all = communicator_.AllGather(std::as_bytes(std::span(values)));
    const std::vector<std::byte> first(all.begin(), all.begin() + kCount * sizeof(float));
    const auto mine = std::as_bytes(std::span(values));
    Expect(std::equal(mine.begin(), mine.end(), first.begin()), "the float sum's bits differ between ranks");
  }

  // A rank's contribution: `count` bytes that name it.
  static std::vector<std::byte> Contribution(int rank, int64_t count) {
    std::vector<std::byte> bytes(count);
    for (int64_t i = 0; i < count; ++i) bytes[i] = std::byte(rank * 31 + i * 7);
    return bytes;
  }

  void AllGather(int64_t count) {
    std::vector<std::byte> expected;
    for (int rank = 0; rank < size_; ++rank) {
      const auto one = Contribution(rank, count);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    Expect(communicator_.AllGather(Contribution(rank_, count)) == expected,
           "all-gather of " + std::to_string(count) + " bytes");
  }

  void Broadcast(int root, int64_t count) {
    std::vector<std::byte> bytes = Contribution(rank_, rank_ == root ? count : 5 * rank_);
    communicator_.Broadcast(bytes, root);
    Expect(bytes == Contribution(root, count),
           "broadcast of " + std::to_string(count) + " bytes from rank " + std::to_string(root));
  }

  void Agreement() {
    Expect(AgreeOnStatus(communicator_, OkStatus()).ok(), "nobody failed, but the verdict is a failure");
    // Every possible lowest rank; all ranks above it fail too, with another code.
    for (int lowest = 0; lowest < size_; ++lowest) {
      Status mine;
      if (rank_ == lowest) mine = BadFile("model.gguf: truncated on " + std::to_string(rank_));
      if (rank_ > lowest) mine = OutOfMemory("no pages on " + std::to_string(rank_));
      const Status verdict = AgreeOnStatus(communicator_, mine);
      const std::string text = "model.gguf: truncated on " + std::to_string(lowest);
      Expect(verdict.code() == StatusCode::kBadFile, "the verdict's code is that of the lowest rank that failed");
      Expect(verdict.message().ends_with(text), "found the message: " + verdict.message());
      const std::string prefix = "rank " + std::to_string(lowest) + " (host ";
      Expect(verdict.message().starts_with(prefix) == (size_ > 1), "found the message: " + verdict.message());
    }
  }

  void Counting() {
    const CollectiveCounters before = communicator_.counters();
    std::vector<int64_t> values(10);
    communicator_.AllReduce(std::span(values), ReduceOp::kSum);  // 1 call, 80 bytes
    (void)communicator_.AllGather(std::vector<std::byte>(12));   // 1 call, 12 bytes
    std::vector<std::byte> bytes(rank_ == 0 ? 33 : 0);
    communicator_.Broadcast(bytes, 0);  // 2 calls, 8 + 33 bytes
    const CollectiveCounters& after = communicator_.counters();
    const int64_t calls = after.calls - before.calls, payload = after.payload_bytes - before.payload_bytes;
    Expect(calls == (size_ == 1 ? 0 : 4), "counted " + std::to_string(calls) + " calls");
    Expect(payload == (size_ == 1 ? 0 : 133), "counted " + std::to_string(payload) + " bytes");
  }

  // Short calls back to back, of changing kind: a rank that runs ahead must not disturb the ones behind.
  void ManyShortCalls() {
    bool ok = true;
    for (int round = 0; round < 300 && ok; ++round) {
      int64_t value = rank_ + round;
      communicator_.AllReduce(std::span(&value, 1), ReduceOp::kSum);
      ok = value == int64_t(round) * size_ + size_ * (size_ - 1) / 2;
      std::vector<std::byte> bytes(1, std::byte(rank_ + round));
      communicator_.Broadcast(bytes, round % size_);
      ok = ok && bytes[0] == std::byte(round % size_ + round);
    }
    Expect(ok, "short calls back to back");
  }

 private:
  Communicator& communicator_;
  const int rank_, size_;
  std::vector<std::string> failures_;
};

}  // namespace

namespace {

// Parts of every shape: neighbours in pairs, every second rank, each alone, all; then a part of a part. Parts work at
// the same time, and the whole works on beside them.
void CheckSplit(Communicator& whole, Checker& check) {
  const int rank = whole.rank(), size = whole.size();
  const auto expect_ranks = [&](Communicator& part, const std::vector<int>& ranks, const std::string& what) {
    const auto at = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    check.Expect(part.size() == int(ranks.size()) && part.rank() == at, what + ": wrong size or rank");
    std::vector<int> gathered(ranks.size());
    const std::vector<std::byte> bytes = part.AllGather(std::as_bytes(std::span(&rank, 1)));
    if (bytes.size() == gathered.size() * sizeof(int)) std::memcpy(gathered.data(), bytes.data(), bytes.size());
    check.Expect(gathered == ranks, what + ": other ranks in it");
    int64_t sum = rank, want = 0;
    for (int other : ranks) want += other;
    part.AllReduce(std::span(&sum, 1), ReduceOp::kSum);
    check.Expect(sum == want, what + ": wrong sum");
    check.Expect(part.counters().calls == (ranks.size() == 1 ? 0 : 2), what + ": counts of its own expected");
  };
  for (const auto& [what, group_of] :
       std::initializer_list<std::pair<std::string, int (*)(int)>>{{"pairs", [](int r) { return r / 2; }},
                                                                   {"every second", [](int r) { return r % 2; }},
                                                                   {"alone", [](int r) { return r; }},
                                                                   {"all", [](int) { return 7; }}}) {
    std::vector<int> ranks;
    for (int other = 0; other < size; ++other) {
      if (group_of(other) == group_of(rank)) ranks.push_back(other);
    }
    const auto part = whole.Split(group_of(rank));
    expect_ranks(*part, ranks, what);
    int32_t highest = rank;
    whole.AllReduce(std::span(&highest, 1), ReduceOp::kMax);
    check.Expect(highest == size - 1, what + ": the whole no longer works");
    const auto alone = part->Split(part->rank());
    expect_ranks(*alone, {rank}, what + ", split again");
  }
}

}  // namespace

std::vector<std::string> CheckCollectives(Communicator& communicator) {
  Checker check(communicator);
  check.AllReduces<int32_t>("int32");
  check.AllReduces<int64_t>("int64");
  check.AllReduces<uint64_t>("uint64");
  check.AllReduces<float>("float");
  check.SignedZeros<float>();
  check.DeviceAllReduce();
  check.FastFloatSum();
  for (int64_t count : {0, 1, 1000}) check.AllGather(count);
  for (int root = 0; root < communicator.size(); ++root) {
    for (int64_t count : {0, 1, 1000}) check.Broadcast(root, count);
  }
  check.Agreement();
  check.Counting();
  check.ManyShortCalls();
  CheckSplit(communicator, check);
  return check.failures();
}

std::vector<std::string> CheckLargeCollectives(Communicator& communicator) {
  constexpr int64_t kOneCall = int64_t(1) << 24;
  Checker check(communicator);
  check.LongAllReduce(kOneCall + 3);
  check.AllGather(kOneCall + 5);
  check.Broadcast(communicator.size() - 1, 2 * kOneCall + 1);
  return check.failures();
}

}  // namespace winnow
