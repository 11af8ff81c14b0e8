#include "../mini_task.h"
Task<std::vector<Tracked>> items() { co_return std::vector<Tracked>(3, Tracked{"ab"}); }
Task<int> caller() { int total = 0; const auto list = co_await items(); for (const auto& item : list) total += static_cast<int>(item.text->size()); co_return total; }
int main() { REQUIRE(caller().run() == 6); return finish(); }
