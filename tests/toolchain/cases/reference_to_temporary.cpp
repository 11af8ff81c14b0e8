#include "../mini_task.h"
Task<int> size_of(const Tracked& tracked) { co_return static_cast<int>(tracked.text->size()); }
Task<int> caller() { co_return co_await size_of(Tracked{"seven!!"}); }
int main() { REQUIRE(caller().run() == 7); return finish(); }
