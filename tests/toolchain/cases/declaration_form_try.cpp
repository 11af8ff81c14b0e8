#include "../mini_task.h"
Task<std::optional<Tracked>> maybe(bool there) { if (!there) co_return std::nullopt; co_return Tracked{"there"}; }
#define TRY_DECLARE(declaration, expr, name) auto name = (expr); if (!name) co_return -1; declaration = *std::move(name)
Task<int> caller(bool there) { TRY_DECLARE(Tracked value, co_await maybe(there), first); co_return static_cast<int>(value.text->size()); }
int main() { REQUIRE(caller(true).run() == 5); REQUIRE(caller(false).run() == -1); return finish(); }
