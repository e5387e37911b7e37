#include "compute/reference/kv_page.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

// In order of the moves: a destination may be the source of a later move.
void ReferenceBackend::DoCompact(const CompactArgs& args) {
  for (int64_t i = 0; i < args.moves.dim(0); ++i) {
    const int32_t* move = args.moves.as<int32_t>() + 2 * i;
    const ReferenceSlot from(args.pages, args.kv, move[0]), to(args.pages, args.kv, move[1]);
    for (int64_t dim = 0; dim < args.kv.head_dim; ++dim) {
      from.CopyTo(to, from.KeyIndex(dim), to.KeyIndex(dim));
      from.CopyTo(to, from.ValueIndex(dim), to.ValueIndex(dim));
    }
    if (args.mass.data() != nullptr) args.mass.as<int64_t>()[move[1]] = args.mass.as<int64_t>()[move[0]];
  }
}

}  // namespace winnow
