#include "../mini_task.h"
#pragma clang diagnostic ignored "-Wgnu-statement-expression"
Task<std::optional<int>> half(int n) { if (n % 2) co_return std::nullopt; co_return n / 2; }
#define TRY_VALUE(expr) ({ auto result_ = (expr); if (!result_) co_return -1; *result_; })
Task<int> quarter(int n) { int h = TRY_VALUE(co_await half(n)); int q = TRY_VALUE(co_await half(h)); co_return q; }
int main() { REQUIRE(quarter(8).run() == 2); REQUIRE(quarter(6).run() == -1); return finish(); }
