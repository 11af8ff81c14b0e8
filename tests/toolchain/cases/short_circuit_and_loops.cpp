#include "../mini_task.h"
Task<bool> yes() { co_return true; }
Task<bool> below(int& n, int limit) { co_return ++n < limit; }
Task<int> caller() { int n = 0; while (co_await yes() && co_await below(n, 10)) {} co_return n; }
int main() { REQUIRE(caller().run() == 10); return finish(); }
