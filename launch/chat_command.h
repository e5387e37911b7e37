// `winnow chat`: a conversation on the terminal, line by line.
#pragma once

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/chat_options.h"

namespace winnow {

// arguments: what parsing them said on this rank. Collective: rank 0 reads standard input, the others compute.
Status RunChat(const Status& arguments, const ChatOptions& options, Communicator& communicator);

}  // namespace winnow
