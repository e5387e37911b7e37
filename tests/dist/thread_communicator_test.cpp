#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/dist/collective_checks.h"

namespace winnow {
namespace {

class ThreadCommunicatorOfSize : public testing::TestWithParam<int> {};

TEST_P(ThreadCommunicatorOfSize, DoesEveryCollective) {
  RunThreadRanks(GetParam(), [](Communicator& communicator) {
    for (const std::string& failure : CheckCollectives(communicator)) {
      ADD_FAILURE() << "rank " << communicator.rank() << ": " << failure;
    }
  });
}

TEST_P(ThreadCommunicatorOfSize, RunsTheBodyOncePerRank) {
  std::vector<int> num_calls(GetParam());  // [rank], each written by its own thread
  RunThreadRanks(GetParam(), [&](Communicator& communicator) {
    EXPECT_EQ(communicator.size(), GetParam());
    EXPECT_EQ(communicator.name(), "thread");
    ++num_calls[communicator.rank()];
  });
  EXPECT_EQ(num_calls, std::vector<int>(GetParam(), 1));
}

// The first to arrive has to stop spinning and offer its core: there may be more ranks than cores.
TEST_P(ThreadCommunicatorOfSize, WaitsForALateRank) {
  RunThreadRanks(GetParam(), [](Communicator& communicator) {
    int32_t value = communicator.rank();
    if (communicator.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    communicator.AllReduce(std::span(&value, 1), ReduceOp::kMax);
    EXPECT_EQ(value, communicator.size() - 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadCommunicatorOfSize, testing::Values(1, 2, 3, 5),
                         testing::PrintToStringParamName());

// The sanitizer builds run suites whose name holds "Thread"; a forked child of a threaded program is not for them.
class CommunicatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(CommunicatorDeathTest, NamesARankThatReturnsWhileOthersWait) {
  EXPECT_DEATH(RunThreadRanks(3,
                              [](Communicator& communicator) {
                                if (communicator.rank() == 1) return;
                                int32_t value = 0;
                                communicator.AllReduce(std::span(&value, 1), ReduceOp::kMax);
                              }),
               "winnow: rank [02] \\(host .*\\): internal error: waits in AllReduce.*another rank has returned");
}

TEST_F(CommunicatorDeathTest, NamesARankWhoseBodyThrows) {
  EXPECT_DEATH(RunThreadRanks(2,
                              [](Communicator& communicator) {
                                if (communicator.rank() == 1) throw std::runtime_error("no more pages");
                                int32_t value = 0;
                                communicator.AllReduce(std::span(&value, 1), ReduceOp::kMax);
                              }),
               "winnow: rank 1 .*uncaught exception: no more pages");
}

TEST_F(CommunicatorDeathTest, NamesRanksThatCallDifferentCollectives) {
  EXPECT_DEATH(RunThreadRanks(2,
                              [](Communicator& communicator) {
                                std::vector<int32_t> values(communicator.rank() + 3);
                                communicator.AllReduce(std::span(values), ReduceOp::kMax);
                              }),
               "ranks called different collectives: AllReduce\\(count [34].*AllReduce\\(count [34]");
}

TEST_F(CommunicatorDeathTest, AbortEndsAllThreadRanksWithTheCodeOfTheStatusAndOneLine) {
  EXPECT_EXIT(RunThreadRanks(3,
                             [](Communicator& communicator) {
                               if (communicator.rank() == 2) communicator.Abort(BadFile("m.gguf: truncated"));
                               int32_t value = 0;
                               communicator.AllReduce(std::span(&value, 1), ReduceOp::kMax);
                             }),
              testing::ExitedWithCode(3), "^winnow: rank 2 \\(host [^ )]+\\): m.gguf: truncated\n$");
}

TEST_F(CommunicatorDeathTest, AbortOfAPartEndsTheWholeAndNamesTheRankInIt) {
  EXPECT_EXIT(RunThreadRanks(4,
                             [](Communicator& communicator) {
                               const auto part = communicator.Split(communicator.rank() / 2);
                               if (communicator.rank() == 3) part->Abort(BadFile("m.gguf: truncated"));
                               int32_t value = 0;
                               communicator.AllReduce(std::span(&value, 1), ReduceOp::kMax);
                             }),
              testing::ExitedWithCode(3), "^winnow: rank 3 \\(host [^ )]+\\): m.gguf: truncated\n$");
}

TEST_F(CommunicatorDeathTest, NamesARankThatLeavesAPartWhileOthersWait) {
  EXPECT_DEATH(RunThreadRanks(4,
                              [](Communicator& communicator) {
                                const auto part = communicator.Split(communicator.rank() % 2);
                                if (communicator.rank() == 1) return;
                                int32_t value = 0;
                                if (communicator.rank() == 3) part->AllReduce(std::span(&value, 1), ReduceOp::kMax);
                              }),
               "winnow: rank 3 \\(host .*\\): internal error: waits in AllReduce.*another rank has returned");
}

TEST_F(CommunicatorDeathTest, RefusesANegativeGroup) {
  EXPECT_DEATH(MakeLocalCommunicator()->Split(-1), "check failed");
}

TEST_F(CommunicatorDeathTest, AbortOfALocalRankNamesNoRank) {
  EXPECT_EXIT(MakeLocalCommunicator()->Abort(OutOfMemory("no pages")), testing::ExitedWithCode(4),
              "^winnow: no pages\n$");
}

TEST_F(CommunicatorDeathTest, RefusesFloatSums) {
  std::vector<float> values(2);
  EXPECT_DEATH(MakeLocalCommunicator()->AllReduce(std::span(values), ReduceOp::kSum), "check failed");
}

TEST_F(CommunicatorDeathTest, RefusesARootOutsideTheGroup) {
  std::vector<std::byte> bytes;
  EXPECT_DEATH(MakeLocalCommunicator()->Broadcast(bytes, 1), "check failed");
  EXPECT_DEATH(MakeLocalCommunicator()->Broadcast(bytes, -1), "check failed");
}

TEST(LocalCommunicator, DoesEveryCollective) {
  const auto communicator = MakeLocalCommunicator();
  EXPECT_EQ(communicator->size(), 1);
  EXPECT_EQ(communicator->rank(), 0);
  EXPECT_EQ(communicator->name(), "local");
  for (const std::string& failure : CheckCollectives(*communicator)) ADD_FAILURE() << failure;
}

TEST(AgreeOnStatus, LeavesTheMessageOfALoneRankAsItIs) {
  const auto communicator = MakeLocalCommunicator();
  const Status verdict = AgreeOnStatus(*communicator, BadFile("m.gguf: truncated"));
  EXPECT_EQ(verdict.code(), StatusCode::kBadFile);
  EXPECT_EQ(verdict.message(), "m.gguf: truncated");
}

}  // namespace
}  // namespace winnow
