// Log lines of a busy thread, written together.
//
// A loop that answers many requests in one turn writes their lines with one system call, when the
// turn is over, instead of one for each. What is a warning or worse is written at once, with
// everything before it; so the most that a sudden end can lose are the informative lines of a turn.
#pragma once

namespace atl {

// From here on, on this thread. Whoever calls this calls log_flush() before every wait.
void log_gather();
// Writes what this thread has gathered. Costs nothing when that is nothing.
void log_flush();

}  // namespace atl
