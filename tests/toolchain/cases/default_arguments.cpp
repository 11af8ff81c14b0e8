#include "../mini_task.h"
Task<int> size_of(Tracked tracked = "default", int extra = 3) { co_return static_cast<int>(tracked.text->size()) + extra; }
Task<int> caller() { co_return co_await size_of() + co_await size_of("x"); }
int main() { REQUIRE(caller().run() == 14); return finish(); }
