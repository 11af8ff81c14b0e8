// Carries the precompiled header; see rooms.cmake.
