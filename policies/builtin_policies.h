// The makers of the policies built in, for the registry alone. Each policy lives in a file of its own, named after it.
// Any thread.
#pragma once

#include <memory>

#include "policies/eviction_policy.h"

namespace winnow {

std::unique_ptr<EvictionPolicy> MakeFullPolicy();
std::unique_ptr<EvictionPolicy> MakeStreamingLlmPolicy();
std::unique_ptr<EvictionPolicy> MakeStreamingLlmCompactedPolicy();
std::unique_ptr<EvictionPolicy> MakeRandomPolicy();
std::unique_ptr<EvictionPolicy> MakeH2oPolicy();
std::unique_ptr<EvictionPolicy> MakeSnapKvPolicy();
std::unique_ptr<EvictionPolicy> MakeSnapKvPrefillPolicy();
std::unique_ptr<EvictionPolicy> MakeKeyDiffPolicy();
std::unique_ptr<EvictionPolicy> MakeKnormPolicy();
std::unique_ptr<EvictionPolicy> MakeTovaPolicy();
std::unique_ptr<EvictionPolicy> MakeRKvPolicy();
std::unique_ptr<EvictionPolicy> MakePyramidKvPolicy();
std::unique_ptr<EvictionPolicy> MakePyramidKvPrefillPolicy();
std::unique_ptr<EvictionPolicy> MakeAdaSnapKvPolicy();
std::unique_ptr<EvictionPolicy> MakeAdaSnapKvPrefillPolicy();
std::unique_ptr<EvictionPolicy> MakeKvZipPolicy();
std::unique_ptr<EvictionPolicy> MakeKvZipPlusPolicy();
std::unique_ptr<EvictionPolicy> MakeExpectedAttentionPolicy();
std::unique_ptr<EvictionPolicy> MakeExpectedAttentionPrefillPolicy();
std::unique_ptr<EvictionPolicy> MakeGoldenPolicy();

}  // namespace winnow
