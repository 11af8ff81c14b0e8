#include "../mini_task.h"
struct Inner { std::vector<Tracked> list; };
struct Outer { Inner inner; Tracked name; };
Task<int> use(Outer outer) { co_return static_cast<int>(outer.inner.list.size() + outer.name.text->size()); }
Task<int> caller(bool deep) { if (deep) { const int first = co_await use(Outer{.inner = {.list = {Tracked{}, Tracked{}}}, .name = "abc"}); co_return first + co_await use({.inner = {}, .name = "z"}); } co_return 0; }
int main() { REQUIRE(caller(true).run() == 6); return finish(); }
