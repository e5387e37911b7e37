// A group of one rank: every collective leaves its input as it is.
#include <cstring>

#include "base/check.h"
#include "dist/communicator.h"
#include "dist/rank_exit.h"

namespace winnow {
namespace {

class LocalCommunicator : public Communicator {
 public:
  std::string name() const override { return "local"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Communicator> Split(int group) override {
    WINNOW_CHECK(group >= 0);
    return std::make_unique<LocalCommunicator>();
  }
  [[noreturn]] void Abort(const Status& status) override { ExitRank(0, 1, status); }

 protected:
  void DoAllReduce(void*, int64_t, Element, ReduceOp) override {}
  void DoAllGather(const void* mine, int64_t bytes, void* all) override {
    if (bytes > 0) std::memcpy(all, mine, bytes);
  }
  void DoBroadcast(void*, int64_t, int) override {}
};

}  // namespace

std::unique_ptr<Communicator> MakeLocalCommunicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace winnow
