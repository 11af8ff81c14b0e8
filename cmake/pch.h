// Precompiled for every room: only headers that nearly every file needs.
#pragma once
#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
