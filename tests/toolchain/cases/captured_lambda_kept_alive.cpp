#include "../mini_task.h"
int main() {
  { Tracked captured{"abc"};
    auto body = [captured]() -> Task<int> { co_return static_cast<int>(captured.text->size()); };
    REQUIRE(body().run() == 3); }
  return finish();
}
