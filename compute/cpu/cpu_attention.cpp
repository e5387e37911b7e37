// How attention is dealt to the threads: whole tiles of queries when there are many (prefill, large batches), blocks of
// slots when there are few (decode). Both call the same two kernels.
#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace winnow::cpu {
namespace {

// With this many tiles per thread, dealing them one by one leaves no thread idle for long.
constexpr int64_t kTilesPerThread = 8;
// Blocks that are worth the waking of a thread: 5 us each of attention, 0.05 us of adding mass.
constexpr int64_t kAttendBlocksPerThread = 2;
constexpr int64_t kMassBlocksPerThread = 100;

// Cuts the rows of every sequence and KV head into tiles of at most kMaxTileQueries queries.
void MakeTiles(const AttentionArgs& args, std::vector<AttentionTile>* tiles) {
  const int64_t rows = args.q.dim(0), kv_heads = args.page_table.dim(1), max_pages = args.page_table.dim(2);
  const int64_t query_heads = args.q.dim(1), group = query_heads / kv_heads;
  const int64_t heads_at_once = std::min(group, kMaxTileQueries), rows_at_once = kMaxTileQueries / heads_at_once;
  const int32_t* sequence = args.row_sequence.as<int32_t>();
  const int32_t* observe = args.observe.data() == nullptr ? nullptr : args.observe.as<int32_t>();
  float* peaks = args.peaks.data() == nullptr ? nullptr : args.peaks.as<float>();
  const int64_t peak_slots = peaks == nullptr ? 0 : args.peaks.dim(2);
  tiles->clear();
  for (int64_t row = 0; row < rows;) {
    int64_t count = 1;
    while (count < rows_at_once && row + count < rows && sequence[row + count] == sequence[row]) ++count;
    WINNOW_DCHECK(sequence[row] >= 0 && sequence[row] < args.page_table.dim(0));
    const bool observed =
        observe != nullptr && std::any_of(observe + row, observe + row + count, [](int32_t o) { return o != 0; });
    const bool alone = heads_at_once == group && (row == 0 || sequence[row - 1] != sequence[row]) &&
                       (row + count == rows || sequence[row + count] != sequence[row]);
    for (int64_t h = 0; h < kv_heads; ++h) {
      const int32_t* pages = args.page_table.as<int32_t>() + (sequence[row] * kv_heads + h) * max_pages;
      const int32_t* visible = args.visible.as<int32_t>() + row * kv_heads + h;
      for (int64_t g = 0; g < group; g += heads_at_once) {
        const int64_t head = h * group + g;
        tiles->push_back(
            {.row = row,
             .rows = count,
             .head = head,
             .heads = std::min(heads_at_once, group - g),
             .pages = pages,
             .visible = visible,
             .visible_stride = kv_heads,
             .observe = observed ? observe + row : nullptr,
             .alone = alone,
             .peaks = peaks == nullptr ? nullptr : peaks + (sequence[row] * query_heads + head) * peak_slots});
      }
    }
    row += count;
  }
}

}  // namespace

void CpuBackend::DoAttention(const AttentionArgs& args) {
  MakeTiles(args, &tiles_);
  const AttentionJob job = {.q = args.q.as<float>(),
                            .out = args.out.as<float>(),
                            .query_heads = args.q.dim(1),
                            .pool = args.pages.data(),
                            .kv = args.kv,
                            .page_bytes = args.kv.page_bytes(),
                            .mass = args.mass.data() == nullptr ? nullptr : args.mass.as<int64_t>(),
                            .one_thread = pool_.num_threads() == 1,
                            .peak_scale = args.peaks.data() == nullptr ? nullptr : args.peak_scale.as<float>(),
                            .peak_slots = args.peaks.data() == nullptr ? 0 : args.peaks.dim(2)};
  const int64_t num_tiles = int64_t(tiles_.size());
  const auto take_statistics = [&](const AttentionTile& tile, int64_t block, const float* partials) {
    if (tile.observe != nullptr) kernels_.add_mass(job, tile, block, partials);
    if (tile.peaks != nullptr) kernels_.raise_peaks(job, tile, block, partials);
  };
  const auto block_floats = [&](const AttentionTile& tile) { return BlockFloats(tile, args.kv.head_dim); };
  int64_t all_blocks = 0, longest = 0;
  for (const AttentionTile& tile : tiles_) {
    all_blocks += tile.num_blocks();
    longest = std::max(longest, tile.num_blocks());
  }
  // Where heads hold different numbers of slots, all threads but one would wait for a long one that is dealt last.
  const bool is_even = longest * kTilesPerThread / 2 * pool_.num_threads() <= all_blocks;
  if (pool_.num_threads() == 1 || (is_even && num_tiles >= kTilesPerThread * pool_.num_threads())) {
    int64_t max_floats = 0;
    for (const AttentionTile& tile : tiles_) max_floats = std::max(max_floats, tile.num_blocks() * block_floats(tile));
    for (Memory& memory : partials_) Reserve(memory, max_floats * int64_t(sizeof(float)));
    std::atomic<int64_t> next = 0;
    pool_.Run([&](int thread) {
      float* partials = reinterpret_cast<float*>(partials_[size_t(thread)].data());
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < num_tiles;) {
        const AttentionTile& tile = tiles_[size_t(i)];
        for (int64_t b = 0; b < tile.num_blocks(); ++b) {
          kernels_.attend_block(job, tile, b, partials + b * block_floats(tile));
        }
        kernels_.merge_blocks(job, tile, partials);
        for (int64_t b = 0; tile.keeps_weights() && b < tile.num_blocks(); ++b) take_statistics(tile, b, partials);
      }
    });
    return;
  }
  // Blocks of all tiles in one line, cut evenly; the partials of all lie in one memory.
  int64_t num_blocks = 0, num_floats = 0;
  bool any_statistics = false;
  for (const AttentionTile& tile : tiles_) {
    num_blocks += tile.num_blocks();
    num_floats += tile.num_blocks() * block_floats(tile);
    any_statistics |= tile.keeps_weights();
  }
  float* partials = Reserve(partials_[0], num_floats * int64_t(sizeof(float)));
  // f(tile, block, the tile's partials) for every block.
  const auto for_blocks = [&](int64_t blocks_per_thread, auto&& f) {
    const auto deal = [&](int64_t begin, int64_t end) {
      float* at = partials;
      for (const AttentionTile& tile : tiles_) {
        for (int64_t b = std::max(begin, int64_t(0)); b < std::min(end, tile.num_blocks()); ++b) f(tile, b, at);
        begin -= tile.num_blocks();
        end -= tile.num_blocks();
        at += tile.num_blocks() * block_floats(tile);
      }
    };
    if (num_blocks >= blocks_per_thread * pool_.num_threads()) {
      pool_.For(num_blocks, deal);
    } else {
      deal(0, num_blocks);
    }
  };
  for_blocks(kAttendBlocksPerThread, [&](const AttentionTile& tile, int64_t block, float* at) {
    kernels_.attend_block(job, tile, block, at + block * block_floats(tile));
  });
  float* at = partials;
  for (const AttentionTile& tile : tiles_) {
    kernels_.merge_blocks(job, tile, at);
    at += tile.num_blocks() * block_floats(tile);
  }
  if (!any_statistics) return;
  for_blocks(kMassBlocksPerThread, take_statistics);
}

}  // namespace winnow::cpu
