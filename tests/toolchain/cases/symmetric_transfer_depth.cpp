#include "../mini_task.h"
Task<int> one() { co_return 1; }
Task<int> sum(int n) { int total = 0; for (int i = 0; i < n; ++i) total += co_await one(); co_return total; }
int main() { REQUIRE(sum(3000000).run() == 3000000); return finish(); }
