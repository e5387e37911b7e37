#include "launch/same_arguments.h"

#include <cstdint>

#include "base/hash.h"
#include "launch/model_session.h"

namespace winnow {

Status CheckSameArguments(Communicator& communicator, const std::string& asked) {
  uint64_t hash = 0, first = 0;
  for (unsigned char byte : asked) hash = HashWords({hash, byte});
  if (SameAsFirstRank(communicator, hash, &first)) return OkStatus();
  return InvalidArgument("expected the arguments of rank 0, found others: " + asked);
}

}  // namespace winnow
