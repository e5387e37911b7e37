// What all communicators share: argument checks, counting, and collectives made of two.
#include "dist/communicator.h"

#include <type_traits>

#include "base/check.h"

namespace winnow {

int Communicator::ElementBytes(Element element) {
  switch (element) {
    case Element::kI32:
    case Element::kF32:
      return 4;
    case Element::kI64:
    case Element::kU64:
      return 8;
  }
  WINNOW_CHECK(!"unknown element type");
  return 0;
}

void Communicator::Count(int64_t payload_bytes) {
  if (size() == 1) return;
  ++counters_.calls;
  counters_.payload_bytes += payload_bytes;
}

void Communicator::AllReduce(Backend& backend, const Tensor& tensor, ReduceOp op) {
  WINNOW_CHECK(tensor.dtype() == DType::kI32 || tensor.dtype() == DType::kI64);
  Count(tensor.bytes());
  backend.BeginTransfer(tensor);
  DoAllReduce(tensor.data(), tensor.num_elements(), tensor.dtype() == DType::kI32 ? Element::kI32 : Element::kI64, op);
  backend.EndTransfer(tensor);
}

void Communicator::FastFloatSum(Backend& backend, const Tensor& tensor) {
  WINNOW_CHECK(tensor.dtype() == DType::kF32);
  Count(tensor.bytes());
  backend.BeginTransfer(tensor);
  DoAllReduce(tensor.data(), tensor.num_elements(), Element::kF32, ReduceOp::kSum);
  backend.EndTransfer(tensor);
}

template <class T>
void Communicator::AllReduce(std::span<T> values, ReduceOp op) {
  Element element = Element::kI32;
  if constexpr (std::is_same_v<T, int64_t>) element = Element::kI64;
  if constexpr (std::is_same_v<T, uint64_t>) element = Element::kU64;
  if constexpr (std::is_same_v<T, float>) element = Element::kF32;
  if constexpr (std::is_floating_point_v<T>) {
    WINNOW_CHECK(op != ReduceOp::kSum);  // a float sum depends on the order of the ranks
    // -0 and +0 compare equal, so which one wins would depend on the order too: -0 + 0 is +0.
    for (T& value : values) value += T(0);
  }
  Count(int64_t(values.size_bytes()));
  DoAllReduce(values.data(), int64_t(values.size()), element, op);
}

template void Communicator::AllReduce(std::span<int32_t>, ReduceOp);
template void Communicator::AllReduce(std::span<int64_t>, ReduceOp);
template void Communicator::AllReduce(std::span<uint64_t>, ReduceOp);
template void Communicator::AllReduce(std::span<float>, ReduceOp);

std::vector<std::byte> Communicator::AllGather(std::span<const std::byte> bytes) {
  Count(int64_t(bytes.size()));
  std::vector<std::byte> all(bytes.size() * size());
  DoAllGather(bytes.data(), int64_t(bytes.size()), all.data());
  return all;
}

void Communicator::Broadcast(std::vector<std::byte>& bytes, int root) {
  WINNOW_CHECK(root >= 0 && root < size());
  int64_t length = int64_t(bytes.size());
  Count(sizeof(length));
  DoBroadcast(&length, sizeof(length), root);
  bytes.resize(length);
  Count(length);
  DoBroadcast(bytes.data(), length, root);
}

}  // namespace winnow
