#include "engine/eviction_schedule.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

Request Streaming(int64_t budget, int64_t interval) {
  Request request;
  request.prompt.assign(10, 1);
  request.eviction = {.policy = "streaming-llm", .budget = budget, .interval = interval};
  return request;
}

TEST(EvictionSchedule, MaxSlotsIsTheTriggerOrTheText) {
  const EvictionSchedule schedule(Streaming(64, 16));
  EXPECT_EQ(schedule.MaxSlots(79), 79);
  EXPECT_EQ(schedule.MaxSlots(80), 80);
  EXPECT_EQ(schedule.MaxSlots(81), 80);
  EXPECT_EQ(schedule.MaxSlots(100000), 80);
  EXPECT_EQ(EvictionSchedule(Request()).MaxSlots(100000), 100000);
}

}  // namespace
}  // namespace winnow
