#pragma once

namespace atl {

// Every signal at its default, none blocked: what a program expects to start with. Ignored signals
// survive execve, so whoever starts a program for somebody else calls this first.
// Async-signal-safe: for use between fork and exec.
void reset_signals();

}  // namespace atl
