#include "../mini_task.h"
Task<int> size_of(Tracked tracked) { co_return static_cast<int>(tracked.text->size()); }
Task<int> caller() { Tracked mine{"four"}; const int copied = co_await size_of(mine); const int moved = co_await size_of(std::move(mine)); co_return copied + moved; }
int main() { REQUIRE(caller().run() == 8); return finish(); }
