#include "../mini_task.h"
struct Pair { Tracked a; Tracked b; };
Task<Tracked> make(const char* text) { co_return Tracked{text}; }
Task<int> both() { Pair pair{co_await make("left"), co_await make("right")}; co_return static_cast<int>(pair.a.text->size() * 10 + pair.b.text->size()); }
int main() { REQUIRE(both().run() == 45); return finish(); }
