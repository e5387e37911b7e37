#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace winnow {
namespace {

TEST(ThreadPool, EveryIndexIsVisitedExactlyOnceForAnyThreadCount) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 3, 7, 100}) {
      std::vector<int> visits(count, 0);
      pool.For(count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0), count);
      for (int v : visits) EXPECT_EQ(v, 1);
    }
  }
}

TEST(ThreadPool, WorksAgainAfterItsWorkersWentToSleep) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  pool.Run([&](int) { ++calls; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  pool.Run([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), 6);
}

}  // namespace
}  // namespace winnow
