// One verdict for all ranks. One collective when nobody failed, which is the normal case.
#include <cstring>

#include "dist/communicator.h"
#include "dist/rank_exit.h"

namespace winnow {

Status AgreeOnStatus(Communicator& communicator, const Status& mine) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return mine;

  int32_t first_failed = mine.ok() ? size : rank;
  communicator.AllReduce(std::span(&first_failed, 1), ReduceOp::kMin);
  if (first_failed == size) return OkStatus();

  // Code and message of the lowest rank that failed, with its own host name.
  std::vector<std::byte> verdict;
  if (rank == first_failed) {
    const int32_t code = int32_t(mine.code());
    const std::string message = RankPrefix(rank, size) + mine.message();
    verdict.resize(sizeof(code) + message.size());
    std::memcpy(verdict.data(), &code, sizeof(code));
    std::memcpy(verdict.data() + sizeof(code), message.data(), message.size());
  }
  communicator.Broadcast(verdict, first_failed);
  int32_t code;
  WINNOW_CHECK(verdict.size() >= sizeof(code));
  std::memcpy(&code, verdict.data(), sizeof(code));
  return Status(StatusCode(code), std::string(reinterpret_cast<const char*>(verdict.data()) + sizeof(code),
                                              verdict.size() - sizeof(code)));
}

}  // namespace winnow
