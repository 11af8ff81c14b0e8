#include "../mini_task.h"
struct Options { Tracked a; Tracked b; int n = 0; };
Task<int> use(Options options) { co_return static_cast<int>(options.a.text->size()) + options.n; }
Task<int> caller() { co_return co_await use(Options{.a = "abc", .b = "d", .n = 2}); }
int main() { REQUIRE(caller().run() == 5); return finish(); }
