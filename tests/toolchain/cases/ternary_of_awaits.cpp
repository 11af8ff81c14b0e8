#include "../mini_task.h"
Task<Tracked> make(const char* text) { co_return Tracked{text}; }
Task<Tracked> choose(bool first) { co_return first ? co_await make("one") : co_await make("two"); }
int main() { { REQUIRE(*choose(true).run().text == "one"); REQUIRE(*choose(false).run().text == "two"); } return finish(); }
