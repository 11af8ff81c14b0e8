#include "../mini_task.h"
Task<int> count(std::vector<Tracked> items) { co_return static_cast<int>(items.size()); }
Task<int> caller() { co_return co_await count({Tracked{"a"}, Tracked{"b"}, Tracked{"c"}}); }
int main() { REQUIRE(caller().run() == 3); return finish(); }
