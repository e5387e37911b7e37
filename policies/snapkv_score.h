// SnapKV's score, which several policies rank slots by (policies/snapkv.cpp says what it is). Any thread.
#pragma once

#include <span>

#include "policies/eviction_policy.h"

namespace winnow {

// scores [length]: of each slot before the observation window, the window's attention over 5 neighbouring slots; 0 in
// the window. `head` holds the window's mass.
void ScoreBySnapKv(const HeadView& head, std::span<float> scores);

}  // namespace winnow
