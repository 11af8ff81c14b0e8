#include "../mini_task.h"
Task<int> parked() { Tracked local{"held"}; co_await std::suspend_always{}; co_return 1; }
int main() { { auto task = parked(); task.handle_.resume(); REQUIRE(live_objects == 1); } return finish(); }
